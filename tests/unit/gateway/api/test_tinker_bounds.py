"""What Tinker's clients may have, and what looking at all of it costs."""

import time
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Engine, event, insert
from sqlmodel import Session, col, select
from tests.support.gateway import Gateway, heartbeat, open_gateway
from tests.support.sampling_gateway import running
from tests.support.tinker import Json, Wire, loss_op, zstd

from warren_broker.port import Broker
from warren_gateway.access.caller import Viewer
from warren_gateway.api.problems import RETRY_AFTER_S
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.budgets.pool import ASKED_KIB_PER_OWNER
from warren_gateway.settings import GatewayOptions
from warren_gateway.store.store import Store
from warren_gateway.store.tables import (
    Model,
    RequestRow,
    SnapshotRow,
    TinkerSampler,
    TinkerSession,
)
from warren_gateway.tinker.paths import key_of
from warren_gateway.tinker.sessions import MOST_SESSIONS
from warren_gateway.trainable.waiting_bytes import MOST_WAITING_BYTES, SETTLED_S
from warren_schemas.codec.wire import decode
from warren_schemas.control import WorkerRole
from warren_schemas.episode import PolicyRef
from warren_schemas.http.trainable import CreateModel
from warren_schemas.ids import ModelId
from warren_schemas.training import Op, Refused
from warren_schemas.users.access import ShareRun

OLD_S = 1.0
MIB = 1024 * 1024
BATCH = 256 * 16
"""Samples of a batch: prompts, and how many of each."""


@pytest.fixture
def ann(gateway: Gateway) -> Wire:
    return Wire(gateway.ann)


async def models_of(gateway: Gateway, session: str, n: int) -> list[str]:
    """So many of Ann's, each with a snapshot."""
    names = [f"{session}:train:{number}" for number in range(n)]
    for name in names:
        body = CreateModel(base_model="warren/tiny", name=name, key=key_of(name))
        made, _ = await gateway.services.models.create(Viewer("ann"), body)
        await gateway.store.transact(partial(_keep, made.run))
    return names


def _keep(run: str, session: Session) -> None:
    model = session.exec(select(Model).where(col(Model.run_id) == run)).one()
    row = SnapshotRow(
        model_id=model.id, name="w", version=1, url="u", size_bytes=1, created_s=time.time()
    )
    session.add(row)


@contextmanager
def transactions() -> Generator[list[object]]:
    """Those that are begun meanwhile."""
    begun: list[object] = []

    def note(connection: object) -> None:
        begun.append(connection)

    event.listen(Engine, "begin", note)
    try:
        yield begun
    finally:
        event.remove(Engine, "begin", note)


@pytest.mark.parametrize(
    ("path", "listed"), [("checkpoints", "checkpoints"), ("training_runs", "training_runs")]
)
async def test_a_list_takes_as_many_transactions_however_long_it_is(
    gateway: Gateway, ann: Wire, path: str, listed: str
) -> None:
    await models_of(gateway, await ann.session(), 1)
    with transactions() as for_one:
        assert len((await ann.get(path))[listed]) == 1
    await models_of(gateway, await ann.session(), 9)
    with transactions() as for_ten:
        assert len((await ann.get(path))[listed]) == 10
    assert len(for_ten) < len(for_one) + 9  # others have theirs meanwhile


async def test_what_is_anothers_is_shown_where_it_is_asked_for(gateway: Gateway, ann: Wire) -> None:
    (name,) = await models_of(gateway, await ann.session(), 1)
    run = (await gateway.services.tinker.models.find(Viewer("ann"), name)).run.id
    await gateway.services.sharing.share(Viewer("ann"), run, ShareRun())
    bob = Wire(gateway.bob)
    await bob.get(f"training_runs/{name}", status=404)
    await bob.get(f"training_runs/{name}?access_scope=accessible")
    assert (await bob.get("checkpoints"))["checkpoints"] == []
    assert len((await bob.get("checkpoints?access_scope=accessible"))["checkpoints"]) == 1


async def test_metadata_and_tags_have_a_bound(ann: Wire) -> None:
    large: Json = {"user_metadata": {"a": "x" * 16 * 1024}}
    told = await ann.post("create_session", large, status=422)
    assert "16384 are the most" in told["detail"]
    await ann.post("create_session", {"tags": ["a"] * 65}, status=422)


async def open_sampler(gateway: Gateway, session: str) -> str:
    policy = PolicyRef(model=ModelId("model_base"), base_model="warren/tiny", min_version=0)
    row = await gateway.services.tinker.sessions.open_sampler("ann", session, 0, policy)
    return row.id


def session_row(name: str, seen_s: float) -> TinkerSession:
    return TinkerSession(id=name, owner="ann", created_s=seen_s, seen_s=seen_s)


async def test_a_session_that_is_silent_goes_unless_a_model_is_found_by_it(
    gateway: Gateway, ann: Wire
) -> None:
    with_model, without = await ann.session(), await ann.session()
    await models_of(gateway, with_model, 1)
    await open_sampler(gateway, without)

    def silence(store: Session) -> None:
        for row in store.exec(select(TinkerSession)):
            row.seen_s = OLD_S

    await gateway.store.transact(silence)
    new = await ann.session()
    left = await gateway.store.transact(lambda store: set(store.exec(select(TinkerSession.id))))
    assert left == {with_model, new}
    assert await gateway.store.transact(lambda s: list(s.exec(select(TinkerSampler)))) == []


async def test_an_owner_has_so_many_sessions(gateway: Gateway, ann: Wire) -> None:
    one = session_row("session", time.time()).model_dump()
    rows = [{**one, "id": f"session_{n}"} for n in range(MOST_SESSIONS)]
    await gateway.store.transact(lambda store: store.exec(insert(TinkerSession), params=rows))
    told = await ann.post("create_session", {}, status=400)
    assert f"may have {MOST_SESSIONS}" in told["detail"]
    await Wire(gateway.bob).session()


async def test_questions_have_a_bound_by_bytes(gateway: Gateway, ann: Wire) -> None:
    gateway.services.registry.hear(heartbeat("s1", WorkerRole.SAMPLER, "warren/tiny"))
    sampler = await open_sampler(gateway, await ann.session())
    with gateway.services.budgets.asked.hold("ann", ASKED_KIB_PER_OWNER):
        told = await ann.post("asample", question(sampler), status=429)
    assert "KiB of questions to samplers" in told["detail"]
    assert gateway.services.budgets.answers.n_held == 0


async def test_an_owner_who_waits_for_enough_is_told_when_to_ask_again(
    gateway: Gateway, ann: Wire
) -> None:
    gateway.services.registry.hear(heartbeat("s1", WorkerRole.SAMPLER, "warren/tiny"))
    asked = question(await open_sampler(gateway, await ann.session()))
    with gateway.services.budgets.answers.hold("ann", BudgetOptions().answers_per_owner):
        async with ann.http.post("/api/v1/asample", json=asked) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, f"{RETRY_AFTER_S}")


async def test_batches_of_several_clients_of_an_owner_are_accepted(
    gateway: Gateway, ann: Wire
) -> None:
    """Three of them wait, and there is room for a fourth one's."""
    gateway.services.registry.hear(heartbeat("s1", WorkerRole.SAMPLER, "warren/tiny"))
    asked = question(await open_sampler(gateway, await ann.session()))
    with gateway.services.budgets.answers.hold("ann", 3 * BATCH):
        async with running(gateway.services.tinker.futures.run()):
            await ann.post("asample", asked)


async def test_a_batch_that_can_never_be_taken_in_fails_with_the_reason(
    gateway: Gateway, ann: Wire
) -> None:
    """The SDK sends its first part once the others are accepted."""
    [name] = await models_of(gateway, await ann.session(), 1)
    model = (await gateway.services.tinker.models.find(Viewer("ann"), name)).id
    rest = RequestRow(
        id="future_2", model_id=model, sequence=2, digest="", kind="forward_backward", asked={},
        body=bytes(MOST_WAITING_BYTES), arrived_s=time.time(),
    )  # fmt: skip
    await gateway.store.transact(lambda session: session.add(rest))
    await ann.train(loss_op(name, 3), status=429)  # the first part may be on its way

    def settle(session: Session) -> None:
        row = session.exec(select(RequestRow).where(col(RequestRow.id) == "future_2")).one()
        row.arrived_s -= 2 * SETTLED_S

    await gateway.store.transact(settle)
    await ann.train(loss_op(name, 3))
    await ann.train(loss_op(name, 4, forward_only=True))
    await ann.post("optim_step", {"model_id": name, "seq_id": 5, "adam_params": {}})
    await ann.train(loss_op(name, 1))
    await ann.train(loss_op(name, 6), status=429)  # what waits leaves now

    def kept(session: Session) -> list[RequestRow]:
        rows = select(RequestRow).order_by(col(RequestRow.sequence))
        return [row for row in session.exec(rows) if row.id != "future_2"]

    rows = await gateway.store.transact(kept)
    assert [(row.sequence, row.kind) for row in rows] == [
        (1, "forward_backward"),
        (3, "refused"),
        (4, "refused"),
        (5, "optim_step"),
    ]
    ops = [item for row in rows for item in decode(row.body or b"").items]
    refused = [op.body for op in ops if isinstance(op, Op) and isinstance(op.body, Refused)]
    assert [op.spoils_gradient for op in refused] == [True, False]
    assert "wait for request 1, which" in refused[0].reason
    assert "several calls of forward_backward" in refused[0].reason


async def test_many_samples_of_one_prompt_are_not_passed_by_fewer(
    gateway: Gateway, ann: Wire
) -> None:
    gateway.services.registry.hear(heartbeat("s1", WorkerRole.SAMPLER, "warren/tiny"))
    one = question(await open_sampler(gateway, await ann.session()))
    many = {**one, "seq_id": 1, "num_samples": 100}
    async with running(gateway.services.tinker.futures.run()):
        with gateway.services.budgets.answers.hold("ann", BudgetOptions().answers_per_owner - 50):
            await ann.post("asample", many, status=429)
            told = await ann.post("asample", one, status=429)
        assert "You asked for 100 answers before" in told["detail"]
        await ann.post("asample", many)
        await ann.post("asample", one)


@pytest.fixture
async def narrow(store: Store, broker: Broker, tmp_path: Path) -> AsyncGenerator[Wire]:
    """Whose operator has made the limits small."""
    options = GatewayOptions(tinker_chunk_mb=2.5, tinker_op_mib=8, tinker_prompt_mib=1)
    async with open_gateway(store, broker, tmp_path / "runs", options=options) as gateway:
        yield Wire(gateway.ann)


async def test_clients_are_told_how_to_cut_what_they_train_on(ann: Wire, narrow: Wire) -> None:
    told = [
        (await one.post("client/config"))["fwdbwd_max_chunk_bytes_count"] for one in (ann, narrow)
    ]
    assert told == [5_000_000, 2_500_000]


@pytest.mark.parametrize(
    ("path", "most_mib", "advice", "option"),
    [
        ("forward_backward", 8, "The SDK cuts what is trained on between sequences", "op"),
        ("asample", 1, "Ask with a shorter prompt", "prompt"),
    ],
)
async def test_what_is_too_large_is_refused_with_what_to_do(
    narrow: Wire, path: str, most_mib: int, advice: str, option: str
) -> None:
    body, headers = zstd(b" " * (most_mib * MIB + 1)), {"Content-Encoding": "zstd"}
    async with narrow.http.post(f"/api/v1/{path}", data=body, headers=headers) as response:
        told = (await response.json())["detail"]
    assert response.status == 413
    assert told.startswith(f"The body is over {most_mib * MIB} bytes, unpacked. {advice}")
    assert told.endswith(f"sets the limit (--tinker-{option}-mib).")


def question(sampler: str) -> Json:
    return {
        "sampling_session_id": sampler,
        "seq_id": 0,
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}]},
        "sampling_params": {"max_tokens": 4},
    }
