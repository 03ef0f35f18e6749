"""The env worker as a service: from queues to live environments and back.

Per environment it consumes three queues: `interact.<environment>`, which any env worker takes from
(starts, and steps whose home is gone), its own home, where the steps of its live episodes
arrive, and `compare.<environment>`, where any env worker takes groups whose members are compared. A remote worker takes from its owner's queues of the same kinds, through a gateway. No new
episode of an environment is taken while `capacity` are live, or while the worker is drained; steps of those that are always flow,
whichever queue they come from, and so do groups, as many as are compared at a time.

Invariants: nothing is acknowledged before what follows from it is confirmed (`outbound`); user code
never runs on this event loop (`host`). Stopped, the worker hands back what it holds, lets its homes
fall back, its children end, all within 5 s, and then its sandboxes; another worker rebuilds the episodes.
"""

import asyncio
import logging
import os
import random
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from warren_broker.inbox import Claim, Inbox, hear, receive
from warren_broker.port import WorkBroker
from warren_broker.run_logs.sending import sending_run_logs
from warren_broker.successors import open_successor_publisher
from warren_broker.topology import CANCELLATIONS, RUNS, Home, WorkQueue, compare, home, interact
from warren_broker.worker.draining import Draining
from warren_broker.worker.heartbeat import INTERVAL_S, announce, beat
from warren_env_worker.comparisons import Comparisons
from warren_env_worker.host.host import NOTHING_LISTED
from warren_env_worker.interactions import Interactions
from warren_env_worker.output.log import log_folder
from warren_env_worker.registry import hosted
from warren_env_worker.run_notices import RunNotices
from warren_env_worker.settings import EnvWorkerSettings
from warren_env_worker.successor import Taken
from warren_schemas.control import (
    EnvironmentShape,
    EpisodeCancelled,
    Heartbeat,
    RunEnded,
    WorkerRole,
)
from warren_schemas.envelope import Envelope, Item
from warren_schemas.episode import StartEpisode, Step
from warren_schemas.events import LogComponent
from warren_schemas.group_scoring import ScoreGroup
from warren_schemas.ids import WorkerId
from warren_schemas.operator_policy import OperatorPolicy

START_PREFETCH = 1
"""Messages of new episodes held at most: what waits here can't be taken by a worker that has capacity."""
FULL_S = 1.0
"""How long a full worker keeps such a message, on average: two that took turns in lock step
would each get the same ones again and again."""
STEP_PREFETCH = 64
COMPARE_PREFETCH = 16
"""Groups compared at a time, of one environment: one message holds one. Twice as many as a judge or a service is asked about at
once where its config says nothing else (`in_flight`): so one that hangs holds up no other run's, and what waits for it
has its turn within the time of its parts. The rest waits where another worker can take it."""
REAP_S = 5.0
"""How often episodes past their deadline are looked for."""

_EPISODES = (StartEpisode, Step)

ItemT = TypeVar("ItemT", bound=Item)

log = logging.getLogger(__name__)


async def serve_env_worker(
    broker: WorkBroker,
    settings: EnvWorkerSettings,
    *,
    policy: OperatorPolicy = NOTHING_LISTED,
    owner: str | None = None,
    full_s: float = FULL_S,
) -> None:
    """Serve until cancelled: this owner's episodes alone, or those that are meant for all. Their configs
    reach what `policy` says.

    Raises `EnvironmentUnusable` if what was asked for can't be hosted, and `NotAllowed` when a
    gateway in between refuses.
    """
    logs = sending_run_logs(broker, LogComponent.ENV_WORKER, settings.worker)
    async with logs, AsyncExitStack() as stack:
        notices = RunNotices()
        found = await stack.enter_async_context(hosted(settings, policy, notices.hear))
        hosts = found.hosts
        inboxes = await _inboxes(stack, broker, settings.worker, owner, tuple(hosts))
        publisher = await stack.enter_async_context(open_successor_publisher(broker))
        interactions = Interactions(
            settings.worker,
            hosts,
            publisher.put,
            notices,
            found.rubrics,
            capacity=settings.capacity,
        )
        comparisons = Comparisons(settings.worker, hosts, found.rubrics, publisher.put)
        draining = Draining(
            settings.worker, lambda: interactions.take_new(not draining.is_draining)
        )
        offers = tuple(hosts)
        worker = _Worker(
            settings, interactions, comparisons, offers, found.shapes, owner, full_s, draining
        )
        await _serve(broker, worker, inboxes)


@dataclass(frozen=True, slots=True)
class _Inboxes:
    """Of one environment."""

    environment: str
    starts: Inbox[Taken]
    steps: Inbox[Taken]
    groups: Inbox[ScoreGroup]


async def _inboxes(
    stack: AsyncExitStack,
    broker: WorkBroker,
    worker: WorkerId,
    owner: str | None,
    names: Sequence[str],
) -> list[_Inboxes]:
    places = [(interact(n, owner), home(worker, n, owner), compare(n, owner)) for n in names]
    await broker.declare(*chain(*places))  # in one go: new queues take their time to settle
    return [
        _Inboxes(
            name,
            await _opened(stack, broker, starts, _EPISODES, START_PREFETCH),
            await _opened(stack, broker, steps, _EPISODES, STEP_PREFETCH),
            await _opened(stack, broker, groups, (ScoreGroup,), COMPARE_PREFETCH),
        )
        for name, (starts, steps, groups) in zip(names, places, strict=True)
    ]


async def _opened(
    stack: AsyncExitStack,
    broker: WorkBroker,
    queue: WorkQueue | Home,
    kinds: tuple[type[ItemT], ...],
    prefetch: int,
) -> Inbox[ItemT]:
    return await stack.enter_async_context(receive(broker, queue, kinds, prefetch=prefetch))


@dataclass(frozen=True, slots=True)
class _Worker:
    settings: EnvWorkerSettings
    interactions: Interactions
    comparisons: Comparisons
    offers: tuple[str, ...]
    shapes: tuple[EnvironmentShape, ...]
    owner: str | None
    full_s: float
    draining: Draining

    def heartbeat(self, *, is_leaving: bool = False) -> Heartbeat:
        return Heartbeat(
            envelope=Envelope(),
            worker=self.settings.worker,
            role=WorkerRole.ENVIRONMENT,
            offers=() if self.draining.is_draining else self.offers,
            interval_s=INTERVAL_S,
            capacity=self.settings.capacity * len(self.offers),
            in_flight=self.interactions.n_live,
            n_done=self.interactions.n_done,
            owner=self.owner,
            shapes=self.shapes,
            is_draining=self.draining.is_draining,
            drained_offers=self.offers if self.draining.is_draining else (),
            host=socket.gethostname(),
            pid=os.getpid(),
            is_leaving=is_leaving,
        )


async def _serve(broker: WorkBroker, worker: _Worker, inboxes: Sequence[_Inboxes]) -> None:
    interactions, offers = worker.interactions, worker.offers
    log.info("%s serves %s on %s", worker.settings.worker, ", ".join(offers), broker.description)
    if worker.settings.log_dir is not None:
        log.info("what environments print is kept in %s", log_folder(worker.settings.log_dir))
    try:
        async with asyncio.TaskGroup() as group:
            for each in inboxes:
                group.create_task(_take_within_capacity(each, worker), name="take starts")
                group.create_task(_take(each.steps, interactions.take), name="take steps")
                group.create_task(_take(each.groups, worker.comparisons.take), name="take groups")
            group.create_task(
                hear(broker, RUNS, RunEnded, interactions.runs_ended), name="ended runs"
            )
            group.create_task(
                hear(broker, CANCELLATIONS, EpisodeCancelled, interactions.episodes_cancelled),
                name="cancelled episodes",
            )
            group.create_task(_reap(interactions), name="reap")
            group.create_task(
                beat(broker, worker.heartbeat, draining=worker.draining), name="heartbeat"
            )
    finally:
        await announce(broker, worker.heartbeat(is_leaving=True))


async def _take_within_capacity(inboxes: _Inboxes, worker: _Worker) -> None:
    """What opens no episode is taken at once. Of what does, one message waits for `full_s` and then goes
    back to the end of its queue: another worker may have capacity, and behind it may be a step that
    lost its way home, of an episode that is live here and does not end before it gets it."""
    interactions = worker.interactions
    free = interactions.free_capacity(inboxes.environment)
    async for claims in inboxes.starts:
        waiting = deque[Claim[Taken]]()
        for claim in claims:
            if interactions.needs_capacity(claim.item):
                waiting.append(claim)
            else:
                interactions.take(claim)
        with suppress(TimeoutError):
            async with asyncio.timeout(worker.full_s * random.uniform(0.5, 1.5)):
                while waiting:
                    await free.wait()
                    interactions.take(waiting.popleft())
        for claim in waiting:
            claim.hand_back()


async def _take(inbox: Inbox[ItemT], take: Callable[[Claim[ItemT]], None]) -> None:
    async for claims in inbox:
        for claim in claims:
            take(claim)


async def _reap(interactions: Interactions) -> None:
    while True:
        await asyncio.sleep(REAP_S)
        interactions.reap(time.time())
