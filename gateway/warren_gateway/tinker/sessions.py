"""Sessions of Tinker's clients, and the samplers that they open in them: what outlives a gateway.

Invariants
- A session is seen by its owner alone; to everybody else there is none of this id. An admin has no
  more than others: what a client does in a session belongs to one user.
- Ids of samplers are made of their session's, as the clients expect.
"""

import hashlib
import re
import time
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial

from sqlalchemy import bindparam
from sqlmodel import Session, col, delete, func, select

from warren_gateway.store.clock import store_time_s
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Model, Run, TinkerSampler, TinkerSession
from warren_gateway.tinker.paths import keys_of, name_of, session_of
from warren_gateway.tinker.searching import search
from warren_schemas.episode import PolicyRef
from warren_schemas.ids import can_be_id, new_id
from warren_schemas.tinker.account import SearchSessions, SessionsFound
from warren_schemas.tinker.requests import CreateSession

_HEARD_S = 20.0
"""How exact it is known when a client was last heard of."""
SILENT_S = 30 * 86_400.0
"""So long after its client's last word does a session stay without models."""
MOST_STAYING = 1000
MOST_SESSIONS = 10_000
"""Of one owner."""


_OWN_SAMPLER = (
    select(
        TinkerSampler,
        col(Model.id).is_not(None),
        func.coalesce(Model.live_version, Model.policy_version),
        func.coalesce(Model.live_url, Model.policy_url),
    )
    .join(TinkerSession, col(TinkerSession.id) == col(TinkerSampler.session_id))
    .outerjoin(Model, col(Model.id) == col(TinkerSampler.model_id))
    .where(col(TinkerSampler.id) == bindparam("its_id"))
    .where(col(TinkerSession.owner) == bindparam("its_owner"))
)
"""With what a sampler that moves on has come to, where it has a model. Made once."""
_SAMPLER = re.compile(r"[A-Za-z0-9_-]{1,64}:sample:[0-9]{1,19}")


class NoSuchSession(LookupError):
    """Neither a session of this owner nor one that was."""


class TooManySessions(Exception):
    """The owner may have no more."""


class NoSuchSampler(LookupError):
    """Of no session of this owner."""


@dataclass(frozen=True, slots=True)
class OpenedSampler:
    """A sampler, and whose weights it samples from now."""

    row: TinkerSampler
    policy: PolicyRef
    may_move: bool = False
    """Whether it samples from newer weights, once there are."""


class TinkerSessions:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._staying: OrderedDict[tuple[str, str], OpenedSampler] = OrderedDict()
        """By owner and id, samplers that don't move, those that were asked for last: each sample asks for one."""

    async def create(
        self, owner: str, wanted: CreateSession, key: str | None = None
    ) -> TinkerSession:
        """The same key of the same owner is the same session, whatever else is wanted.

        Raises `TooManySessions`; `StoreUnavailable`, as everything here does.
        """
        now_s = round(time.time(), 6)  # as cursors tell it
        row = TinkerSession(
            id=new_id("session") if key is None else _id_of(owner, key),
            owner=owner,
            created_s=now_s,
            seen_s=now_s,
            sdk_version=wanted.sdk_version,
            display_name=wanted.display_name,
            project=wanted.project_id,
            tags=list(wanted.tags),
            metadata_=wanted.user_metadata,
        )
        return await self._store.transact(partial(_add, row))

    async def heard(self, owner: str, session_id: str) -> None:
        """Its client is there. Raises `NoSuchSession`."""
        await self._store.transact(partial(_heard, owner, session_id))

    async def assign(self, owner: str, session_id: str, project: str) -> None:
        """From now on it belongs to this project. Raises `NoSuchSession`."""
        await self._store.transact(partial(_assign, owner, session_id, project))

    async def search(self, owner: str, asked: SearchSessions) -> SessionsFound:
        return await self._store.read(partial(search, owner, asked))

    async def finish(self, owner: str, session_id: str, reason: str) -> None:
        """Its client is done with it; what it opened can still be used. Raises `NoSuchSession`."""
        await self._store.transact(partial(_finish, owner, session_id, reason))

    async def find(self, owner: str, session_id: str) -> TinkerSession:
        """Raises `NoSuchSession`."""
        return await self._store.read(partial(own_session, owner, session_id))

    async def listed(self, owner: str, limit: int, offset: int) -> list[str]:
        """Ids, the newest first."""
        return await self._store.read(partial(_listed, owner, limit, offset))

    async def open_sampler(
        self,
        owner: str,
        session_id: str,
        number: int,
        policy: PolicyRef,
        model_path: str | None = None,
    ) -> TinkerSampler:
        """The same one for the same number. Raises `NoSuchSession`."""
        opening = partial(_open, owner, session_id, sampler_id(session_id, number), policy)
        return await self._store.transact(partial(opening, model_path))

    async def sampler(self, owner: str, sampler_id: str) -> OpenedSampler:
        """One that doesn't move may be told for as long as the gateway runs, though its session is gone. Raises
        `NoSuchSampler`."""
        if (key := (owner, sampler_id)) in self._staying:
            self._staying.move_to_end(key)
            return self._staying[key]
        opened = await self._store.read(partial(_sampler, owner, sampler_id))
        if not opened.may_move:
            self._staying[key] = opened
            if len(self._staying) > MOST_STAYING:
                self._staying.popitem(last=False)
        return opened

    async def samplers(self, owner: str, session_id: str) -> list[str]:
        """Ids of what was opened in a session. Raises `NoSuchSession`."""
        return await self._store.read(partial(_samplers, owner, session_id))


def sampler_id(session_id: str, number: int) -> str:
    return f"{session_id}:sample:{number}"


def own_session(owner: str, session_id: str, session: Session) -> TinkerSession:
    """Raises `NoSuchSession`."""
    row = session.get(TinkerSession, session_id) if can_be_id(session_id) else None
    if row is None or row.owner != owner:
        raise NoSuchSession(session_id)
    return row


def _id_of(owner: str, key: str) -> str:
    """Nobody else's, and none that is drawn."""
    return f"session_{hashlib.sha256(f'{owner} {key}'.encode()).hexdigest()[:28]}"


def _add(row: TinkerSession, session: Session) -> TinkerSession:
    if (known := session.get(TinkerSession, row.id)) is not None:
        return known
    _sweep(session, row.owner, row.created_s - SILENT_S)
    is_owners = col(TinkerSession.owner) == row.owner
    n = session.exec(select(func.count()).select_from(TinkerSession).where(is_owners)).one()
    if n >= MOST_SESSIONS:
        raise TooManySessions(
            f"You have {n} sessions, and may have {MOST_SESSIONS}; those of which nothing was heard for"
            f" {SILENT_S / 86400:g} days go, once the runs of their models are deleted"
        )
    session.add(row)
    return row


def _sweep(session: Session, owner: str, before_s: float) -> None:
    """Sessions of which nothing was heard since then; a model is found by its session, which stays as long."""
    is_old = (col(TinkerSession.owner) == owner) & (col(TinkerSession.seen_s) < before_s)
    old = set(session.exec(select(TinkerSession.id).where(is_old)))
    if not old:
        return
    is_ours = col(Run.idempotency_key).startswith(keys_of())
    keys = session.exec(select(Run.idempotency_key).where(col(Run.owner) == owner, is_ours))
    gone = old - {session_of(name_of(key)) for key in keys}
    session.exec(delete(TinkerSampler).where(col(TinkerSampler.session_id).in_(gone)))
    session.exec(delete(TinkerSession).where(col(TinkerSession.id).in_(gone)))


def _heard(owner: str, session_id: str, session: Session) -> None:
    row, now_s = own_session(owner, session_id, session), time.time()
    if now_s - row.seen_s > _HEARD_S:
        row.seen_s = now_s


def _assign(owner: str, session_id: str, project: str, session: Session) -> None:
    own_session(owner, session_id, session).project = project


def _finish(owner: str, session_id: str, reason: str, session: Session) -> None:
    row = own_session(owner, session_id, session)
    if row.finished_s is None:
        row.finished_s, row.finish_reason = time.time(), reason


def _listed(owner: str, limit: int, offset: int, session: Session) -> list[str]:
    query = (
        select(TinkerSession.id)
        .where(col(TinkerSession.owner) == owner)
        .order_by(col(TinkerSession.created_s).desc(), col(TinkerSession.id))
        .offset(offset)
        .limit(limit)
    )
    return list(session.exec(query))


def _open(
    owner: str,
    session_id: str,
    sampler: str,
    policy: PolicyRef,
    model_path: str | None,
    session: Session,
) -> TinkerSampler:
    own_session(owner, session_id, session)
    row = session.get(TinkerSampler, sampler)
    if row is None:
        row = TinkerSampler(
            id=sampler,
            session_id=session_id,
            base_model=policy.base_model,
            model_path=model_path,
            policy=policy.model_dump(mode="json"),
            model_id=policy.model,
            version=policy.min_version if policy.pinned else None,
            created_s=time.time(),
            used_s=store_time_s(session),
        )
        session.add(row)
    return row


def _sampler(owner: str, sampler: str, session: Session) -> OpenedSampler:
    is_name = _SAMPLER.fullmatch(sampler) is not None  # no store takes a NUL
    named = {"its_id": sampler, "its_owner": owner}
    found = session.exec(_OWN_SAMPLER, params=named).one_or_none() if is_name else None
    if found is None:
        raise NoSuchSampler(sampler)
    row, has_model, version, url = found
    policy = PolicyRef.model_validate(row.policy)
    may_move = has_model and not policy.pinned
    return OpenedSampler(row, _moved_on(policy, version, url), may_move)


def _moved_on(policy: PolicyRef, version: int | None, url: str | None) -> PolicyRef:
    """The newest that samplers of this model move on to: the files of older ones may be gone."""
    if policy.pinned or version is None or version < policy.min_version:
        return policy
    return policy.model_copy(update={"min_version": version, "url": url})


def _samplers(owner: str, session_id: str, session: Session) -> list[str]:
    own_session(owner, session_id, session)
    query = select(TinkerSampler.id).where(col(TinkerSampler.session_id) == session_id)
    return list(session.exec(query.order_by(col(TinkerSampler.created_s))))
