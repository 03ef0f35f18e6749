"""One gateway, put together: the store, what works in the background, and the HTTP server.

It stops in good order when it is cancelled: event streams end, requests under way are answered,
coordinators and the relay finish their transaction, the store is closed. The broker belongs to the
caller. Whatever was not done by then is taken up by the next start.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from warren_broker.port import Broker
from warren_broker.topology import CANCELLATIONS, DEAD, FILE_CLEANUP, POLICIES, RUNS, WORKERS
from warren_gateway.access.audit import Audit
from warren_gateway.access.callers import Callers
from warren_gateway.access.first_key import ensure_key
from warren_gateway.access.keys import ApiKeys
from warren_gateway.access.users import Users
from warren_gateway.adapters.service import Adapters
from warren_gateway.advice import SEPARATE_WORKERS, Advice
from warren_gateway.api.listening import listening
from warren_gateway.api.services import Services
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
from warren_gateway.inference.sampler_requests import SamplerRequests
from warren_gateway.inference.served import Served
from warren_gateway.metrics.consumer import Metrics
from warren_gateway.metrics.reports import Reports
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
from warren_gateway.tinker.services import tinker_of
from warren_gateway.trainable.service import Models
from warren_gateway.trainable.waiters import Waiters
from warren_gateway.usage.limits import OwnerLimits, UserLimits
from warren_gateway.usage.service import UsageReports
from warren_schemas.ids import RunId

Background = Mapping[str, Callable[[], Coroutine[Any, Any, None]]]
"""What goes on until the gateway stops, each by the name of its task."""

log = logging.getLogger(__name__)


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


async def _serve(
    store: Store,
    broker: Broker,
    settings: GatewaySettings,
    ready: asyncio.Event,
    advice: Advice,
) -> None:
    callers, limits = Callers(store), OwnerLimits(settings)
    registry, recordings = Registry(broker), Recordings(store)
    cache = settings.home / "cache" / "datasets"
    datasets = Datasets(store, settings.datasets_url, cache, limits)
    progress = _run_progress(
        store, broker, registry, recordings, limits, settings, advice, datasets
    )
    services = _services(
        store, broker, settings, advice, callers, limits, registry, recordings, datasets, progress
    )
    await ensure_key(services.keys, settings)
    background = {
        "callers": callers.run,
        "registry": registry.run,
        **progress.background,
        "sampler requests": services.sampler_requests.run,
        "sample futures": services.tinker.futures.run,
        "draining of workers": services.draining.run,
        "dead letters": DeadLetters(broker, store, services.budgets.dead_letters).run,
        "tidy the broker": broker.tidy,
    }
    await _run(services, settings, background, ready)


def _services(
    store: Store,
    broker: Broker,
    settings: GatewaySettings,
    advice: Advice,
    callers: Callers,
    limits: OwnerLimits,
    registry: Registry,
    recordings: Recordings,
    datasets: Datasets,
    progress: "_RunProgress",
) -> Services:
    questions, budgets = SamplerRequests(broker), Budgets(settings)
    served, posted = Served(store, registry, advice), progress.posted
    return Services(
        broker=broker,
        registry=registry,
        draining=Draining(store, broker, registry),
        runs=progress.runs,
        checking=Checking(store),
        client_leases=progress.client_leases,
        models=progress.models,
        sharing=Sharing(store, callers),
        callers=callers,
        users=Users(store, callers),
        keys=ApiKeys(store, callers),
        user_limits=UserLimits(store, callers, limits),
        usage=UsageReports(store),
        audit=Audit(store),
        recordings=recordings,
        reports=Reports(store),
        evaluations=Evaluations(store),
        datasets=datasets,
        adapters=Adapters(store, settings.adapters_url, datasets.uploads, limits),
        base_models=BaseModels(
            store, settings.models_url, datasets.uploads, limits, settings.uploaded_model_gib
        ),
        remote_sessions=RemoteSessions(broker, progress.runs, budgets),
        served=served,
        names=ServedNames(store, lambda: served.offered, posted),
        sampler_requests=questions,
        tinker=tinker_of(
            store,
            questions,
            budgets,
            limits,
            registry,
            progress.waiters,
            posted,
            settings,
            progress.n_queued,
        ),
        budgets=budgets,
        followers=Followers(broker),
        store_probe=Probe(partial(answers_store, store)),
        broker_probe=Probe(partial(answers_broker, broker)),
    )


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
    n_queued: Callable[[], int]
    """Jobs that wait for a trainer."""


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
    driving, place, queued = (scheduler, coordinators), scheduler.place, scheduler.n_queued
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
    return _RunProgress(runs, client_leases, models, waiters, background, relay.notify, queued)


async def _run(
    services: Services,
    settings: GatewaySettings,
    background: Background,
    ready: asyncio.Event,
) -> None:
    """Listen, and do what goes on in the background, until cancelled."""
    async with listening(services, settings) as runner, asyncio.TaskGroup() as tasks:
        for name, work in background.items():
            tasks.create_task(work(), name=name)
        log.info("gateway listens at http://%s:%d", settings.host, settings.port)
        ready.set()
        try:
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()  # before the tasks: nobody submits to what is stopping
