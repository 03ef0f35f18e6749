"""One gateway, put together: the store, what works in the background, and the HTTP server.

It stops in good order when it is cancelled: event streams end, requests under way are answered,
coordinators and the relay finish their transaction, the store is closed. The broker belongs to the
caller. Whatever was not done by then is taken up by the next start.
"""

import asyncio
import errno
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from aiohttp import web

from warren_broker.port import Broker
from warren_broker.topology import CANCELLATIONS, DEAD, FILE_CLEANUP, POLICIES, RUNS, WORKERS
from warren_gateway.access.audit import Audit
from warren_gateway.access.callers import Callers
from warren_gateway.access.first_key import ensure_key
from warren_gateway.access.keys import ApiKeys
from warren_gateway.access.users import Users
from warren_gateway.adapters.service import Adapters
from warren_gateway.advice import SEPARATE_WORKERS, Advice
from warren_gateway.api.app import build_runner
from warren_gateway.api.parts import Parts
from warren_gateway.archive.reading import ArchivedRun
from warren_gateway.archive.service import Archive
from warren_gateway.base_models.service import BaseModels
from warren_gateway.budgets.pool import Budgets
from warren_gateway.checking.service import Checking
from warren_gateway.coordinator.service import Coordinators
from warren_gateway.datasets.service import Datasets
from warren_gateway.dead_letters import DeadLetters
from warren_gateway.evaluations.stored import Evaluations
from warren_gateway.following.followers import Followers
from warren_gateway.inference.names import ServedNames
from warren_gateway.inference.questions import Questions
from warren_gateway.inference.served import Served
from warren_gateway.metrics.consumer import Metrics
from warren_gateway.metrics.reports import Reports
from warren_gateway.models.service import Models
from warren_gateway.models.waiters import Waiters
from warren_gateway.private import make_private_folder
from warren_gateway.probe import Probe, answers_broker, answers_store
from warren_gateway.recordings.stored import Recordings
from warren_gateway.registry import Registry
from warren_gateway.remote.sessions import RemoteSessions
from warren_gateway.runs.client_leases import ClientLeases
from warren_gateway.runs.service import Runs
from warren_gateway.runs.sharing import Sharing
from warren_gateway.scheduling.draining import Draining
from warren_gateway.scheduling.service import Scheduler
from warren_gateway.settings import GatewaySettings
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store
from warren_gateway.tinker.parts import tinker_of
from warren_gateway.usage.limits import OwnerLimits, UserLimits
from warren_gateway.usage.service import UsageReports
from warren_schemas.ids import RunId

Background = Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
"""What goes on until the gateway stops, each by the name of its task."""

SHUTDOWN_S = 2.0
"""How long requests under way may take to end."""

log = logging.getLogger(__name__)


class CannotListen(Exception):
    """The address can't be listened at; says which and what to do."""


class PortInUse(CannotListen):
    def __init__(self, settings: GatewaySettings) -> None:
        super().__init__(
            f"port {settings.port} on {settings.host} is in use; stop who listens there, or choose"
            " another one with --port"
        )


async def serve_gateway(
    broker: Broker,
    settings: GatewaySettings,
    *,
    ready: asyncio.Event | None = None,
    advice: Advice = SEPARATE_WORKERS,
) -> None:
    """Serve until cancelled; `ready` is set once it listens. `advice` says how workers are had here.

    Raises `StoreUnavailable`, `CannotListen`, `InvalidKey`, `BrokerError` or `OSError` when it can't
    start.
    """
    for folder in (settings.home, settings.runs_dir):
        await asyncio.to_thread(make_private_folder, folder)
    store = await Store.open(settings.store_url)
    try:
        await broker.declare(DEAD, FILE_CLEANUP, WORKERS, POLICIES, RUNS, CANCELLATIONS)
        await _serve(store, broker, settings, ready or asyncio.Event(), advice)
    finally:
        await store.close()


def _datasets(store: Store, settings: GatewaySettings, limits: OwnerLimits) -> Datasets:
    return Datasets(store, settings.datasets_url, settings.home / "cache" / "datasets", limits)


def _base_models(
    store: Store, settings: GatewaySettings, datasets: Datasets, limits: OwnerLimits
) -> BaseModels:
    url, most_gib = settings.models_url, settings.uploaded_model_gib
    return BaseModels(store, url, datasets.uploads, limits, most_gib)


async def _serve(
    store: Store,
    broker: Broker,
    settings: GatewaySettings,
    ready: asyncio.Event,
    advice: Advice,
) -> None:
    callers = Callers(store)
    keys = ApiKeys(store, callers)
    await ensure_key(keys, settings)
    registry, recordings, limits = Registry(broker), Recordings(store), OwnerLimits(settings)
    draining = Draining(store, broker, registry)
    served = Served(store, registry, advice)
    datasets = _datasets(store, settings, limits)
    progress = _run_progress(
        store, broker, registry, recordings, limits, settings, advice, datasets
    )
    questions, budgets = Questions(broker), Budgets(settings)
    waiters, posted = progress.waiters, progress.posted
    parts = Parts(
        broker=broker,
        registry=registry,
        draining=draining,
        runs=progress.runs,
        checking=Checking(store),
        client_leases=progress.client_leases,
        models=progress.models,
        sharing=Sharing(store, callers),
        callers=callers,
        users=Users(store, callers),
        keys=keys,
        user_limits=UserLimits(store, callers, limits),
        usage=UsageReports(store),
        audit=Audit(store),
        recordings=recordings,
        reports=Reports(store),
        evaluations=Evaluations(store),
        datasets=datasets,
        adapters=Adapters(store, settings.adapters_url, datasets.uploads, limits),
        base_models=_base_models(store, settings, datasets, limits),
        remote_sessions=RemoteSessions(broker, progress.runs, budgets),
        served=served,
        names=ServedNames(store, lambda: served.offered, progress.posted),
        questions=questions,
        tinker=tinker_of(
            store, questions, budgets, limits, registry, waiters, posted, settings.public_url
        ),
        budgets=budgets,
        followers=Followers(broker),
        store_probe=Probe(partial(answers_store, store)),
        broker_probe=Probe(partial(answers_broker, broker)),
    )
    background = {
        "callers": callers.run,
        "registry": registry.run,
        **progress.background,
        "questions": questions.run,
        "sample futures": parts.tinker.futures.run,
        "draining of workers": draining.run,
        "dead letters": DeadLetters(broker, store, budgets.dead_letters).run,
        "tidy the broker": broker.tidy,
    }
    await _run(parts, settings, background, ready)


@dataclass(frozen=True, slots=True)
class _RunProgress:
    """What takes runs in, brings them forward and records them."""

    runs: Runs
    client_leases: ClientLeases
    models: Models
    waiters: Waiters
    background: Background
    posted: Callable[[], None]
    """Told of every new message in the outbox."""


def _run_progress(
    store: Store,
    broker: Broker,
    registry: Registry,
    recordings: Recordings,
    limits: OwnerLimits,
    settings: GatewaySettings,
    advice: Advice,
    datasets: Datasets,
) -> _RunProgress:
    relay, due, waiters = Relay(store, broker), asyncio.Event(), Waiters()
    metrics = Metrics(store, broker, settings.runs_dir)
    archive = Archive(recordings, broker, settings.archive_url)

    def record(run: RunId) -> None:
        """A run of a gateway that is gone is recorded where it is driven from now on."""
        metrics.notify(run)
        archive.notify(run)

    coordinators = Coordinators(
        store,
        broker,
        registry,
        relay,
        driving=record,
        limits=limits,
        reschedule=due.set,
        answered=lambda _, outcomes: waiters.answered(outcomes),
        advice=advice,
        lease_s=settings.run_lease_s,
        open_rows=datasets.opened,
        open_archive=partial(ArchivedRun, settings.archive_url),
    )
    scheduler = Scheduler(
        store, registry, relay, due=due, admitted=coordinators.notify, advice=advice, limits=limits
    )
    runs = Runs(
        store,
        broker,
        relay,
        runs_dir=settings.runs_dir,
        queue=scheduler,
        followers=(scheduler, coordinators),
        limits=limits,
        places=scheduler.place,
    )
    client_leases = ClientLeases(store, relay)
    driving, place = (scheduler, coordinators), scheduler.place
    models = Models(store, broker, relay, waiters, *driving, limits=limits, places=place)
    background = {
        "relay": relay.run,
        "coordinators": coordinators.run,
        "changes of runs": coordinators.hear,
        "scheduler": scheduler.run,
        "models of clients": models.run,
        "metrics": metrics.run,
        "archive": archive.run,
        "client leases": client_leases.run,
    }
    return _RunProgress(runs, client_leases, models, waiters, background, relay.notify)


async def _run(
    parts: Parts,
    settings: GatewaySettings,
    background: Background,
    ready: asyncio.Event,
) -> None:
    """Listen, and do what goes on in the background, until cancelled."""
    async with _listening(parts, settings) as runner, asyncio.TaskGroup() as tasks:
        for name, work in background.items():
            tasks.create_task(work(), name=name)
        log.info("gateway listens at http://%s:%d", settings.host, settings.port)
        ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()  # before the tasks: nobody submits to what is stopping


@asynccontextmanager
async def _listening(parts: Parts, settings: GatewaySettings) -> AsyncGenerator[web.AppRunner]:
    """The HTTP server. Raises `CannotListen`."""
    runner = build_runner(parts, shutdown_s=SHUTDOWN_S)
    await runner.setup()
    try:
        await _listen(runner, settings)
        yield runner
    finally:
        await runner.cleanup()


async def _listen(runner: web.AppRunner, settings: GatewaySettings) -> None:
    try:
        await web.TCPSite(runner, settings.host, settings.port).start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(settings) from error
        where = f"{settings.host}:{settings.port}"
        raise CannotListen(f"can't listen at {where}: {error.strerror or error}") from error
