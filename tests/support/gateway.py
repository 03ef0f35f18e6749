"""A gateway's HTTP side over a real store and broker, without coordinators: tests write the events."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from tests.support.patience import PATIENCE_S

from warren_broker.port import Broker
from warren_broker.topology import run_events
from warren_gateway.access.audit import Audit
from warren_gateway.access.callers import Callers
from warren_gateway.access.key import Key
from warren_gateway.access.keys import ApiKeys
from warren_gateway.access.users import Users
from warren_gateway.adapters.service import Adapters
from warren_gateway.api.app import build_runner
from warren_gateway.api.services import Services
from warren_gateway.api.table import ROUTES
from warren_gateway.base_models.service import BaseModels
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.budgets.pool import Budgets
from warren_gateway.checking.service import Checking
from warren_gateway.coordinator.state.client import Arrived
from warren_gateway.datasets.service import Datasets
from warren_gateway.evaluations.stored import Evaluations
from warren_gateway.following.followers import Followers
from warren_gateway.inference.names import ServedNames
from warren_gateway.inference.sampler_requests import SamplerRequests
from warren_gateway.inference.served import Served
from warren_gateway.metrics.reports import Reports
from warren_gateway.options import SITE_DEFAULTS
from warren_gateway.probe import Probe, answers_broker, answers_store
from warren_gateway.recordings.stored import Recordings
from warren_gateway.registry import Registry
from warren_gateway.remote.sessions import SESSION_LIMITS, RemoteSessions, SessionLimits
from warren_gateway.runs.client_leases import ClientLeases
from warren_gateway.runs.service import Runs
from warren_gateway.runs.sharing import Sharing
from warren_gateway.runs.streams import streams_of
from warren_gateway.scheduling.draining import Draining
from warren_gateway.scheduling.service import Scheduler
from warren_gateway.settings import GatewayOptions
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store
from warren_gateway.tinker.services import tinker_of
from warren_gateway.trainable.service import Models
from warren_gateway.trainable.waiters import Waiters
from warren_gateway.usage.limits import OwnerLimits, UserLimits
from warren_gateway.usage.service import UsageReports
from warren_schemas.codec.wire import encode
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunEvent, RunEventBody, RunState, StateChanged, StepCompleted
from warren_schemas.http import RunView
from warren_schemas.ids import RunId, WorkerId, new_message_id

CONFIG: dict[str, Any] = {
    "name": "guessing",
    "model": {"base": "warren/tiny"},
    "environments": [{"name": "guess"}],
}


@dataclass
class Follower:
    """Remembers what it was told."""

    runs: list[RunId] = field(default_factory=list[RunId])
    arrived: list[Arrived | None] = field(default_factory=list[Arrived | None])
    """With each request of a client."""

    def notify(self, run: RunId, /) -> None:
        self.runs.append(run)

    def notify_of_request(self, run: RunId, arrived: Arrived | None, /) -> None:
        self.runs.append(run)
        self.arrived.append(arrived)


@dataclass
class Gateway:
    """One that listens, and two owners' clients: `ann` and `bob`, and one without a key."""

    store: Store
    broker: Broker
    relay: Relay
    services: Services
    queue: Follower
    follower: Follower
    scheduler: Scheduler
    """It decides only where a test lets it run."""
    url: str
    ann: aiohttp.ClientSession
    bob: aiohttp.ClientSession
    nobody: aiohttp.ClientSession

    async def submit(self, **fields: Any) -> RunId:
        """Submit the least config as `ann`; the run's streams are there, as once a coordinator drives it.

        Tried again, as clients do, where a starved machine held a transaction up until the database ended it.
        """
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self._submitted(fields)) is None:
                pass
        view = RunView.model_validate(answer)
        assert view.config is not None
        await self.broker.declare(*streams_of(view.id, view.config))
        return view.id

    async def _submitted(self, fields: dict[str, Any]) -> object:
        """None where the store was away, and nothing was changed."""
        async with self.ann.post("/v1/runs", json={"config": CONFIG, **fields}) as response:
            return None if response.status == 503 else await response.json()

    async def tell(self, run: str, *bodies: RunEventBody) -> None:
        """Publish these as one message of the run's events."""
        await publish_events(self.broker, run, [event(run, body) for body in bodies])


@asynccontextmanager
async def open_gateway(
    store: Store,
    broker: Broker,
    runs_dir: Path,
    *,
    sessions: SessionLimits = SESSION_LIMITS,
    budgets: BudgetOptions | None = None,
    options: GatewayOptions = SITE_DEFAULTS,
    **replacing: Any,
) -> AsyncGenerator[Gateway]:
    """`replacing` are `Services` that stand in for the usual ones."""
    callers, relay, registry = Callers(store), Relay(store, broker), Registry(broker)
    keys = ApiKeys(store, callers)
    queue, follower = Follower(), Follower()
    scheduler = Scheduler(store, registry, relay, due=asyncio.Event(), admitted=follower.notify)
    budgets = budgets or BudgetOptions()
    limits = OwnerLimits(budgets)
    runs = Runs(
        store,
        broker,
        relay,
        runs_dir=runs_dir,
        queue=queue,
        followers=[follower],
        limits=limits,
    )
    waiters = Waiters()
    models = Models(
        store,
        broker,
        relay,
        waiters,
        queue,
        follower,
        limits=limits,
        places=scheduler.place,
    )
    served = Served(store, registry)
    pool, questions = Budgets(budgets), SamplerRequests(broker)
    datasets = Datasets(store, f"file://{runs_dir}/datasets", runs_dir / "cache", limits)
    services = Services(
        broker=broker,
        registry=registry,
        draining=Draining(store, broker, registry),
        runs=runs,
        checking=Checking(store),
        client_leases=ClientLeases(store, relay),
        models=models,
        sharing=Sharing(store, callers),
        callers=callers,
        users=Users(store, callers),
        keys=keys,
        user_limits=UserLimits(store, callers, limits),
        usage=UsageReports(store),
        audit=Audit(store),
        recordings=Recordings(store),
        reports=Reports(store),
        evaluations=Evaluations(store),
        datasets=datasets,
        adapters=Adapters(store, f"file://{runs_dir}/adapters", datasets.uploads, limits),
        base_models=BaseModels(store, f"file://{runs_dir}/base-models", datasets.uploads, limits),
        remote_sessions=RemoteSessions(broker, runs, pool, sessions),
        served=served,
        names=ServedNames(store, lambda: served.offered, relay.notify),
        sampler_requests=questions,
        tinker=tinker_of(
            store,
            questions,
            pool,
            limits,
            registry,
            waiters,
            relay.notify,
            options,
            scheduler.n_queued,
        ),
        budgets=pool,
        followers=Followers(broker),
        store_probe=Probe(partial(answers_store, store)),
        broker_probe=Probe(partial(answers_broker, broker)),
    )
    services = replace(services, **replacing)
    runner = build_runner(services, shutdown_s=2.0)
    undeclared = _watch_statuses(runner)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with (
            _client(url, await _key_of(keys, "ann")) as ann,
            _client(url, await _key_of(keys, "bob")) as bob,
            _client(url, None) as nobody,
        ):
            yield Gateway(
                store, broker, relay, services, queue, follower, scheduler, url, ann, bob, nobody
            )
    finally:
        await runner.cleanup()
    assert not undeclared, f"add to the `errors` of these routes: {sorted(undeclared)}"


def _watch_statuses(runner: web.AppRunner) -> set[str]:
    """Errors that routes answer with and don't declare; filled as they come."""
    undeclared: set[str] = set()
    declared = {
        (route.method, route.path): {
            *route.errors,
            500,
            503,
            *route.refusals,
        }
        for route in ROUTES
    }

    async def watch(request: web.Request, response: web.StreamResponse) -> None:
        resource = request.match_info.route.resource
        place = (request.method, resource.canonical if resource else "")
        if response.status >= 400 and response.status not in declared.get(place, {response.status}):
            undeclared.add(f"{response.status}: {' '.join(place)}")

    runner.app.on_response_prepare.append(watch)
    return undeclared


def _client(url: str, key: Key | None) -> aiohttp.ClientSession:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return aiohttp.ClientSession(url, headers=headers)


async def _key_of(keys: ApiKeys, owner: str) -> Key:
    key = Key.new()
    await keys.add(key, owner)
    return key


def event(run: str, body: RunEventBody, at_s: float = 1_700_000_000.0) -> RunEvent:
    return RunEvent(envelope=Envelope(run=RunId(run)), at_s=at_s, body=body)


def ended(state: RunState = RunState.COMPLETED) -> StateChanged:
    return StateChanged(state=state)


def step(number: int, **metrics: float) -> StepCompleted:
    """A training step; `reward_mean=1` becomes the tag `reward/mean`."""
    return StepCompleted.model_validate(
        {
            "phase": "training",
            "step": number,
            "n_steps": 10,
            "version": number,
            "n_episodes": 16 * number,
            "metrics": {name.replace("_", "/", 1): value for name, value in metrics.items()},
        }
    )


async def publish_events(broker: Broker, run: str, events: Sequence[RunEvent]) -> None:
    await broker.declare(run_events(run))
    await broker.publish(run_events(run), encode(events), message_id=new_message_id())


def heartbeat(worker: str, role: WorkerRole, *offers: str, **fields: Any) -> Heartbeat:
    return Heartbeat.model_validate(
        {
            "envelope": Envelope(),
            "worker": WorkerId(worker),
            "role": role,
            "offers": offers,
            "interval_s": 60.0,
            "capacity": 4,
            "in_flight": 0,
            **fields,
        }
    )
