"""What is kept of all models of Tinker's clients, in pages, on both databases."""

from collections.abc import AsyncGenerator

import pytest
from sqlmodel import Session

from warren_gateway.access.caller import Viewer
from warren_gateway.access.shared_runs import EVERYBODY
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Checkpoint, Model, Run, ShareRow, SnapshotRow, User
from warren_gateway.tinker.paths import key_of
from warren_gateway.tinker.runs import Scope, TrainedModels
from warren_schemas.events import RunState

ANN, BOB = Viewer("ann"), Viewer("bob")
LATER_S = 4e9


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    """With two models of Ann's, of which something is kept alternately, and one of Bob's, which is published."""
    store = await Store.open(any_store_url)
    await store.transact(_keep)
    yield store
    await store.close()


def _keep(session: Session) -> None:
    for name, owner, state in (
        ("0", "ann", RunState.RUNNING),
        ("1", "ann", RunState.CANCELLED),
        ("2", "bob", RunState.RUNNING),
    ):
        if name != "1":
            session.add(User(name=owner, created_s=1.0))
            session.flush()
        _add_model(session, name, owner, state)
    session.add(ShareRow(run_id="run_2", user=EVERYBODY, created_s=1.0))
    for n in range(4):
        _add_snapshot(session, f"{n % 2}", f"w{n}", 10.0 + n)
        _add_checkpoint(session, f"{n % 2}", f"s{n}", 20.0 - n)
    _add_snapshot(session, "0", "w0b", 10.0)
    _add_snapshot(session, "0", "s0", 20.0)
    _add_snapshot(session, "0", "gone", 30.0, expires_s=31.0)
    _add_snapshot(session, "2", "external.out", 15.5, expires_s=LATER_S)
    for model in ("0", "1"):
        _add_checkpoint(session, model, "auto", 40.0, is_automatic=True)


def _add_model(session: Session, name: str, owner: str, state: RunState) -> None:
    key = key_of(f"session_1:train:{name}")
    run = Run(
        id=f"run_{name}", owner=owner, name="", idempotency_key=key, state=state, config={},
        n_steps=0, created_s=1.0,
    )  # fmt: skip
    session.add(run)
    session.flush()
    model = Model(id=f"model_{name}", run_id=run.id, base_model="m", spec={}, is_clients=True)
    session.add(model)
    session.flush()


def _add_snapshot(
    session: Session, model: str, name: str, at_s: float, expires_s: float | None = None
) -> None:
    session.add(
        SnapshotRow(model_id=f"model_{model}", name=name, version=1, url="u", size_bytes=1 << 40,
                    created_s=at_s, expires_s=expires_s, metadata_={"of": name})
    )  # fmt: skip


def _add_checkpoint(
    session: Session, model: str, name: str, at_s: float, *, is_automatic: bool = False
) -> None:
    session.add(
        Checkpoint(model_id=f"model_{model}", name=name, op=1, version=1, step=0, url="u",
                   size_bytes=2, created_s=at_s, is_automatic=is_automatic)
    )  # fmt: skip


ANNS = ["1/auto", "0/s0", "0/s0", "1/s1", "0/s2", "1/s3", "1/w3", "0/w2", "1/w1", "0/w0", "0/w0b"]


async def listed(
    store: Store, viewer: Viewer, scope: Scope, limit: int, offset: int = 0
) -> tuple[list[str], int]:
    kept, n = await TrainedModels(store).listed_kept(viewer, scope, limit, offset)
    return [f"{row.training.rpartition(':')[2]}/{row.name}" for row in kept], n


async def test_the_newest_comes_first_whichever_model_it_is_of(store: Store) -> None:
    assert await listed(store, ANN, "owned", 100) == (ANNS, len(ANNS))
    kept, _ = await TrainedModels(store).listed_kept(ANN, "owned", 100, 0)
    assert [row.kind for row in kept[1:3]] == ["checkpoint", "snapshot"], "of one name and time"


async def test_pages_hold_each_once(store: Store) -> None:
    pages = [await listed(store, ANN, "owned", 2, offset) for offset in range(0, 12, 2)]
    assert [name for page, _ in pages for name in page] == ANNS
    assert {n for _, n in pages} == {len(ANNS)}
    assert await listed(store, ANN, "owned", 2, 100) == ([], len(ANNS))


async def test_what_others_share_is_listed_where_it_is_asked_for(store: Store) -> None:
    names, n = await listed(store, ANN, "accessible", 100)
    assert (names[6], n) == ("2/external.out", len(ANNS) + 1)
    assert await listed(store, BOB, "accessible", 100) == (["2/external.out"], 1)
    (kept,), _ = await TrainedModels(store).listed_kept(BOB, "owned", 1, 0)
    assert (kept.is_public, kept.created_s, kept.expires_s) == (True, 15.5, LATER_S)
    assert (kept.size_bytes, kept.metadata) == (1 << 40, {"of": "external.out"})
