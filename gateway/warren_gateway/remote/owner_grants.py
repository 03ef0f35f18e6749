"""What a key's owner may do with an env worker of their own.

    consume     his own `interact` and `compare` queues, this worker's own homes, the ends of his own runs
    publish     what follows from an episode that he was shown (see `issued`), where it belongs: to
                the samplers (any, or one), to the run's stream, to its results, or back to his own queues; this worker's heartbeats, and what it
                says in the logs of his own runs
    declare     the same queues, as many as his budget has (`declared_queues`), and those of the base models
                that his episodes named

Everything else is refused. Another owner's episodes can't come his way: they lie in other queues,
whose names begin with another owner's mark.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from warren_broker.errors import NotAllowed
from warren_broker.topology import (
    CANCELLATIONS,
    HEARTBEAT_REQUESTS,
    RUNS,
    WORKERS,
    Address,
    Home,
    Topic,
    WorkQueue,
    compare,
    generate,
    home,
    interact,
    is_sampler_home,
    owned,
    results,
    run_log,
    trajectories,
)
from warren_gateway.remote.declared_queues import SessionQueues
from warren_gateway.remote.issued import Issued, OfEpisode, of_episode
from warren_gateway.store.store import StoreUnavailable
from warren_schemas.codec.frame import WireError
from warren_schemas.codec.wire import MAX_BATCH_BYTES, Decoded, decode, encode
from warren_schemas.config.numbers import RESERVED, is_reserved
from warren_schemas.control import (
    DrainWorker,
    EpisodeCancelled,
    Heartbeat,
    HeartbeatsRequested,
    RunEnded,
    WorkerRole,
)
from warren_schemas.envelope import Item
from warren_schemas.episode import EpisodeEnded, Generate
from warren_schemas.events import LogComponent, RunLogged
from warren_schemas.group_scoring import GroupScored, ScoreGroup
from warren_schemas.ids import RunId

MAX_INTERVAL_S = 60.0
MAX_OFFERS = 64
_HEARD = (RUNS, CANCELLATIONS, HEARTBEAT_REQUESTS)
"""Topics of which an owner's workers hear what concerns the owner's runs, or every worker."""

OwnedRuns = Callable[[Collection[str]], Awaitable[Collection[str]]]
"""Those of these runs that belong to the owner. Raises `StoreUnavailable`."""


class OwnerGrants:
    """`grants.Grants` of one worker of one owner."""

    def __init__(
        self, queues: SessionQueues, worker: str, issued: Issued, owned_runs: OwnedRuns
    ) -> None:
        """`queues` are those of this session, and of its owner."""
        self._owner = queues.owner
        self._queues = queues
        self._worker = worker
        self._issued = issued
        self._owned_runs = owned_runs
        self._base_models: set[str] = set()

    def declare(self, address: Address) -> None:
        is_event = address in (*_HEARD, WORKERS)
        is_known_model = any(address == generate(model) for model in self._base_models)
        if not (is_event or is_known_model or self._is_mine(address)):
            raise NotAllowed(f"a remote env worker may not declare {address.name}")
        if not is_event and not is_known_model and isinstance(address, WorkQueue | Home):
            self._queues.use(address)

    def consume(self, source: WorkQueue | Home | Topic) -> None:
        self._check_source(source)
        if not isinstance(source, Topic):
            self._queues.use(source)

    def _check_source(self, source: WorkQueue | Home | Topic) -> None:
        if source not in _HEARD and not self._is_mine(source):
            raise NotAllowed(
                f"{source.name} is not yours to take from: a remote env worker takes from its owner's"
                " own queues alone"
            )

    async def publish(self, address: Address, body: bytes) -> None:
        items = await self._valid(body)
        for item in items:
            if isinstance(item, Heartbeat):
                self._check_heartbeat(address, item)
            elif isinstance(item, RunLogged):
                await self._check_log(address, item)
            else:
                self._check_successor(address, item)

    async def give_up(self, origin: WorkQueue | Home, body: bytes) -> None:
        """A dead letter may be sent home again, so it must be as good as what came from there.

        What can't be read is as bad as what came from there: not a byte of it is the worker's own.
        """
        self._check_source(origin)
        try:
            items = await self._valid(body)
        except NotAllowed:
            if self._issued.covers_unreadable(self._owner, body):
                return
            raise
        for item in items:
            self._check_issued(item)

    async def show(self, source: WorkQueue | Home | Topic, body: bytes) -> Collection[bytes]:
        try:
            decoded = await _decoded(body)
        except WireError:
            if isinstance(source, Topic):
                return ()
            self._issued.note_unreadable(self._owner, body)
            return (body,)
        if isinstance(source, Topic):
            return await self._own_news(decoded.items)
        for rejected in decoded.rejected:
            self._issued.note_unreadable(self._owner, rejected.body)
        for item in decoded.items:
            if (episode := of_episode(item)) is not None:
                self._issued.note(self._owner, episode)
                self._base_models.add(episode.spec.policy.base_model)
        return (body,)

    def _is_mine(self, address: Address) -> bool:
        mark = owned(self._owner)
        if isinstance(address, WorkQueue):
            environment = address.name.removeprefix(mark).partition(".")[2]
            mine = interact(environment, self._owner), compare(environment, self._owner)
            return address in mine and not is_reserved(environment)
        if isinstance(address, Home):
            environment = address.name.removeprefix(f"{mark}home.{self._worker}.")
            mine = home(self._worker, environment, self._owner)
            return address == mine and not is_reserved(environment)
        return False

    async def _valid(self, body: bytes) -> list[Item]:
        try:
            decoded = await _decoded(body)
        except WireError as error:
            raise NotAllowed(f"a message that can't be read: {error}") from error
        if decoded.rejected:
            raise NotAllowed(f"a message that is not valid: {decoded.rejected[0].reason}")
        return decoded.items

    def _check_successor(self, address: Address, item: Item) -> None:
        episode = self._check_issued(item)
        if isinstance(episode, Generate):
            if episode.home != self._worker:
                raise NotAllowed(f"the answer would go to {episode.home}, not to {self._worker}")
            base_model = episode.spec.policy.base_model
            fits = address == generate(base_model) or is_sampler_home(address, base_model)
        elif isinstance(episode, EpisodeEnded):
            fits = address == trajectories(episode.envelope.run or "")
        elif isinstance(episode, GroupScored):
            fits = address == results(episode.spec.policy.model)
        elif isinstance(episode, ScoreGroup):
            fits = address == compare(episode.spec.environment, self._owner)
        else:
            fits = self._is_mine(address) and address != compare(
                episode.spec.environment, self._owner
            )
        if not fits:
            raise NotAllowed(f"a {item.kind} of this episode does not belong into {address.name}")

    def _check_issued(self, item: Item) -> OfEpisode:
        episode = of_episode(item)
        if episode is None:
            raise NotAllowed(f"a remote env worker publishes no {item.kind}")
        if not self._issued.covers(self._owner, episode):
            raise NotAllowed(
                f"episode {item.envelope.episode} (attempt {item.envelope.attempt}) was not given to"
                " this owner's workers in this form, or too long ago; its message comes again"
            )
        return episode

    def _check_heartbeat(self, address: Address, beat: Heartbeat) -> None:
        if address != WORKERS:
            raise NotAllowed(f"a heartbeat does not belong into {address.name}")
        said = beat.worker, beat.owner, beat.role
        if said != (self._worker, self._owner, WorkerRole.ENVIRONMENT) or beat.models:
            raise NotAllowed(f"{self._worker} may not speak for {beat.worker}, a {beat.role}")
        names = (*beat.offers, *beat.drained_offers)
        if beat.interval_s > MAX_INTERVAL_S or len(names) > MAX_OFFERS:
            raise NotAllowed(
                f"a heartbeat comes every {MAX_INTERVAL_S:g} s at least and names {MAX_OFFERS}"
                " environments at most"
            )
        if any(is_reserved(name) for name in names):
            raise NotAllowed(f"environments whose names begin with {RESERVED} are Warren's own")
        for name in names:
            if not self._queues.has(interact(name, self._owner)):
                raise NotAllowed(f"{self._worker} offers {name} and takes nothing from its queue")

    async def _check_log(self, address: Address, item: RunLogged) -> None:
        run = item.envelope.run or ""
        said = address, item.component, item.worker
        if said != (run_log(run), LogComponent.ENV_WORKER, self._worker):
            raise NotAllowed(f"{self._worker} may not speak for {item.worker}, {item.component}")
        try:
            is_mine = run in await self._owned_runs([run])
        except StoreUnavailable as error:
            raise NotAllowed("whose run that is can't be found out now") from error
        if not is_mine:
            raise NotAllowed(f"{run} is no run of yours")

    async def _own_news(self, items: list[Item]) -> Collection[bytes]:
        """Nobody learns of others' runs. A store that is away only means that nobody hears of this."""
        runs = [(_concerns(item), item) for item in items]
        try:
            mine = await self._owned_runs([run for run, _ in runs if run is not None])
        except StoreUnavailable:
            return ()
        shown = [item for run, item in runs if run in mine or self._is_for_me(item)]
        return (encode(shown),) if shown else ()

    def _is_for_me(self, news: Item) -> bool:
        is_asked = isinstance(news, DrainWorker) and news.worker == self._worker
        return is_asked or isinstance(news, HeartbeatsRequested)


def _concerns(news: Item) -> RunId | None:
    match news:
        case RunEnded():
            return news.ended_run
        case EpisodeCancelled():
            return news.envelope.run
        case _:
            return None


async def _decoded(body: bytes) -> Decoded:
    """A large one in a thread: the event loop has others to serve."""
    if len(body) > MAX_BATCH_BYTES:
        return await asyncio.to_thread(partial(decode, body))
    return decode(body)
