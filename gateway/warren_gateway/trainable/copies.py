"""Copies of what is kept of a model: each is a model of its own that keeps this alone, and is not trained.

Invariants
- A copy and what it was made of share no file: each is deleted, expires and is counted by itself.
- A copy is kept once all its files are there, as they were sealed. Where a gateway dies before that, there is a
  failed run of which nothing is kept: the same request goes on with it, and its files go with it.
- One key makes one copy; what was deleted is not made again, for the order to delete its files may come late.
- Each try writes to a folder of its own: two gateways that are asked at once don't meet.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy.exc import IntegrityError
from sqlmodel import Session

from warren_broker.topology import FILE_CLEANUP
from warren_gateway.access.caller import Viewer
from warren_gateway.datasets.folder import Folder
from warren_gateway.datasets.problems import FilesUnavailable
from warren_gateway.folders import UnreadableFolder, read_folder
from warren_gateway.runs.deleting import delete_run
from warren_gateway.runs.service import KeyReused
from warren_gateway.store.outbox import post
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Checkpoint, HistoryRow, Run, SnapshotRow
from warren_gateway.trainable.copied_files import copy_folder
from warren_gateway.trainable.copied_rows import CopyAsked, insert_copy, kept_like
from warren_gateway.trainable.creating import with_key
from warren_gateway.trainable.owned import readable
from warren_gateway.trainable.problems import CantCopy
from warren_gateway.trainable.saved import find_saved
from warren_gateway.usage.limits import DEFAULT_LIMITS, OwnerLimits
from warren_gateway.usage.space import lack_of_space
from warren_schemas.envelope import Envelope
from warren_schemas.events import RunState
from warren_schemas.files import NamedFolder
from warren_schemas.http import RunResult
from warren_schemas.ids import ModelId, RunId, new_id
from warren_schemas.training import DeleteModel

MOST_AT_ONCE = 4
"""Copies that a gateway makes; others wait."""


class _FasterCopy(Exception):
    """Another gateway has made it meanwhile."""


@dataclass(frozen=True, slots=True)
class _Begun:
    run: str
    model: str
    source: Checkpoint | SnapshotRow


@dataclass(slots=True, eq=False)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    n: int = 0
    """Requests that have it or wait for it."""


class Copies:
    def __init__(
        self, store: Store, posted: Callable[[], None], limits: OwnerLimits = DEFAULT_LIMITS
    ) -> None:
        """`posted` is told of messages in the outbox."""
        self._store = store
        self._posted = posted
        self._limits = limits
        self._turns = defaultdict[tuple[str, str], _Turn](_Turn)
        self._places = asyncio.Semaphore(MOST_AT_ONCE)

    async def copy(self, viewer: Viewer, asked: CopyAsked) -> None:
        """Once it returns, the copy is kept.

        Raises `NoSuchTrainable`, `NoSuchSavedWeights`, `CantCopy`, `KeyReused`, `FilesUnavailable`, `FullFolder`,
        `StoreUnavailable`.
        """
        async with self._turn(viewer.user, asked.key):
            begun = await self._begun(viewer, asked)
            if begun is not None:
                async with self._places:
                    await self._made(viewer, asked, begun)

    @asynccontextmanager
    async def _turn(self, owner: str, key: str) -> AsyncGenerator[None]:
        """Whoever asks again meanwhile waits for what comes of it."""
        turn = self._turns[owner, key]
        turn.n += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.n -= 1
            if not turn.n:
                del self._turns[owner, key]

    async def _begun(self, viewer: Viewer, asked: CopyAsked) -> _Begun | None:
        work = partial(_begin, viewer, asked, self._limits)
        try:
            return await self._store.transact(work)
        except IntegrityError:  # the same key, a moment earlier
            return await self._store.transact(work)

    async def _made(self, viewer: Viewer, asked: CopyAsked, begun: _Begun) -> None:
        try:
            files, name = _place(begun)
            async with _unless_made(files, name):
                url = await _copied(begun.source, files, name)
                completing = partial(_complete, viewer.user, asked, begun, url, self._limits)
                await self._store.transact(completing)
        except _FasterCopy:
            return
        except CantCopy:
            await self._store.transact(partial(_abandon, begun))
            self._posted()
            raise


def _place(begun: _Begun) -> tuple[Folder, str]:
    """Where models' files are, and a place there that is the copy's own. Raises `CantCopy`."""
    source = begun.source
    root, _, place = source.url.rpartition(f"/{source.model_id}/")
    if not place:
        raise CantCopy(f"{source.url} is no folder of {source.model_id}")
    name = f"{begun.model}/{place.partition('/')[0]}/{new_id('copy')}"
    return Folder(root, "checkpoints"), name


@asynccontextmanager
async def _unless_made(files: Folder, name: str) -> AsyncGenerator[None]:
    """What was written is dropped where an error is raised; what is left of it goes with the model."""
    try:
        yield
    except (CantCopy, FilesUnavailable, _FasterCopy):
        with suppress(FilesUnavailable):
            await asyncio.to_thread(files.remove, name)
        raise


async def _copied(source: Checkpoint | SnapshotRow, files: Folder, name: str) -> str:
    """URL of the folder. Raises `CantCopy`, `FilesUnavailable`, `FullFolder`."""
    try:
        folder = await read_folder(NamedFolder(source.name, source.url))
        await copy_folder(folder, files, name)
    except UnreadableFolder as error:
        raise CantCopy(f"{error}") from error
    return files.url(name)


def _begin(
    viewer: Viewer, asked: CopyAsked, limits: OwnerLimits, session: Session
) -> _Begun | None:
    """None: it is kept already."""
    known = with_key(session, viewer, asked.key)
    if known is not None and known[0].name != asked.name:
        raise KeyReused(known[0].id)
    if known is not None and known[0].state == RunState.COMPLETED:
        find_saved(session, known[1], asked.kept)
        return None
    _, model = readable(session, viewer, asked.model)
    source = find_saved(session, model, asked.kept)
    _require_space(session, viewer.user, source.size_bytes, limits)
    run, copy = known or insert_copy(session, viewer.user, model, asked)
    return _Begun(run.id, copy.id, source)


def _require_space(session: Session, owner: str, n_bytes: int, limits: OwnerLimits) -> None:
    """Raises `CantCopy`."""
    if (reason := lack_of_space(session, owner, n_bytes, limits, is_alone=True)) is not None:
        raise CantCopy(reason)


def _complete(
    owner: str, asked: CopyAsked, begun: _Begun, url: str, limits: OwnerLimits, session: Session
) -> None:
    """Raises `CantCopy`, `_FasterCopy`."""
    run = session.get(Run, begun.run, with_for_update=True)
    if run is None:
        raise CantCopy("the copy was deleted while it was made")
    if run.state == RunState.COMPLETED:
        raise _FasterCopy
    _require_space(session, owner, begun.source.size_bytes, limits)
    now_s = time.time()
    session.add(kept_like(begun.source, begun.model, url, now_s, asked.ttl_s))
    run.state, run.error, run.ended_s = RunState.COMPLETED, None, now_s
    run.result = RunResult(remark=asked.name).model_dump(mode="json")
    session.add(HistoryRow(run_id=run.id, state=run.state, at_s=now_s, reason=asked.name))


def _abandon(begun: _Begun, session: Session) -> None:
    """Nothing is left of it."""
    run = session.get(Run, begun.run, with_for_update=True)
    if run is None:
        order = DeleteModel(envelope=Envelope(run=RunId(begun.run)), model=ModelId(begun.model))
        post(session, FILE_CLEANUP, order)
    elif run.state != RunState.COMPLETED:
        delete_run(session, run)
