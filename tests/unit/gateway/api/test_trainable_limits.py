"""What a client may keep of its models and have open, and what others have yet to load."""

import asyncio
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
from sqlmodel import Session, col, select
from tests.support.gateway import Gateway

import warren
from warren.trainable.model import TrainableModel
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.store.tables import Checkpoint, Model, RequestRow, Run, SnapshotRow
from warren_gateway.trainable.saved import delete_expired
from warren_gateway.trainable.space import MOST_SAVING
from warren_gateway.trainable.submitting import MOST_OPEN
from warren_gateway.trainable.waiting_bytes import MOST_WAITING_BYTES
from warren_gateway.usage.stored_bytes import stored_bytes
from warren_schemas.events import RunState

STEP = {"kind": "optim_step", "learning_rate": 0.1}
SMALL = BudgetOptions(stored_gib_per_owner=1e-6)  # 1,073 bytes


async def ask(gateway: Gateway, model: str, **op: Any) -> tuple[int, str]:
    """Status, and how the request is kept or what was wrong with it."""
    return await ask_in_turn(gateway, model, None, **op)


async def ask_in_turn(
    gateway: Gateway, model: str, sequence: int | None, **op: Any
) -> tuple[int, str]:
    body = {"op": op, "sequence": sequence}
    async with gateway.ann.post(f"/v1/trainable/{model}/ops", json=body) as response:
        told = await response.json()
    if response.status != 200:
        return response.status, told["code"]
    is_it = col(RequestRow.id) == told["future"]
    find = select(RequestRow.kind).where(is_it)
    return 200, await gateway.store.transact(lambda session: session.exec(find).one())


@pytest.fixture
async def model(client: warren.Client) -> TrainableModel:
    return await client.create_model("warren/tiny")


@pytest.fixture
async def saved(gateway: Gateway, model: TrainableModel) -> Checkpoint:
    row = Checkpoint(
        model_id=model.id, name="a", op=1, version=1, step=1, url="file:///a", size_bytes=600,
        created_s=time.time(),
    )  # fmt: skip
    await gateway.store.transact(lambda session: session.add(row))
    return row


@pytest.mark.parametrize("budgets", [SMALL])
async def test_what_would_be_over_the_owners_space_fails_in_its_place(
    gateway: Gateway, model: TrainableModel, saved: Checkpoint
) -> None:
    assert await ask(gateway, model.id, kind="save_state", name="b") == (200, "refused")
    again = await ask(gateway, model.id, kind="save_state", name="a", overwrite=True)
    assert again == (200, "save_state")
    snapshots = [
        SnapshotRow(model_id=model.id, name=name, version=1, url="u", size_bytes=400, created_s=1.0)
        for name in ("x", "y")  # two names of the same files
    ]
    await gateway.store.transact(lambda session: session.add_all(snapshots))
    assert await gateway.store.transact(lambda s: stored_bytes(s, "ann")) == 1000
    await gateway.store.transact(partial(set_policy_bytes, model.id))
    assert await ask(gateway, model.id, kind="publish", name="z") == (200, "refused")
    assert await ask(gateway, model.id, kind="publish") == (200, "publish_policy")


def set_policy_bytes(model: str, session: Session) -> None:
    session.get_one(Model, model).policy_bytes = 400


async def test_a_checkpoint_stays_until_the_models_that_begin_with_it_have_it(
    client: warren.Client, gateway: Gateway, model: TrainableModel, saved: Checkpoint
) -> None:
    begun = await client.create_model("warren/tiny", begin_from=f"{model.id}/a")
    with pytest.raises(
        warren.GatewayError, match=f"yet to be loaded by {begun.view.run}"
    ) as caught:
        await model.delete_checkpoint("a")
    assert caught.value.status == 409

    def expire(session: Session) -> None:
        session.get_one(Checkpoint, (model.id, "a")).expires_s = 1.0
        session.get_one(Run, model.view.run).state = RunState.CANCELLED
        session.flush()
        delete_expired(session, 2.0)
        assert session.get(Checkpoint, (model.id, "a")) is not None

    await gateway.store.transact(expire)
    with pytest.raises(warren.GatewayError, match=f"{begun.view.run} has yet to load"):
        await (await client.run(model.view.run)).delete()

    def end(session: Session) -> None:
        session.get_one(Run, begun.view.run).state = RunState.CANCELLED
        session.flush()
        delete_expired(session, 2.0)
        assert session.get(Checkpoint, (model.id, "a")) is None

    await gateway.store.transact(end)


async def test_ops_that_wait_have_a_bound_by_bytes(gateway: Gateway, model: TrainableModel) -> None:
    large = RequestRow(
        id="future_1", model_id=model.id, digest="", kind="forward", asked={},
        body=bytes(MOST_WAITING_BYTES), arrived_s=1.0,
    )  # fmt: skip
    await gateway.store.transact(lambda session: session.add(large))
    assert await ask(gateway, model.id, **STEP) == (429, "over_budget")

    def take(session: Session) -> None:
        """It is in the log."""
        row = session.exec(select(RequestRow).where(col(RequestRow.id) == "future_1")).one()
        row.body, row.op = None, 1

    await gateway.store.transact(take)
    assert await ask(gateway, model.id, **STEP) == (200, "optim_step")


@pytest.mark.parametrize(
    ("most", "op"),
    [
        (MOST_OPEN, {"kind": "optim_step", "learning_rate": 0.1}),
        (MOST_SAVING, {"kind": "save_state", "name": "b"}),
    ],
)
async def test_the_op_that_all_others_wait_for_finds_a_place(
    gateway: Gateway, model: TrainableModel, most: int, op: dict[str, Any]
) -> None:
    waiting = [
        RequestRow(
            id=f"future_{n}", model_id=model.id, sequence=n, digest="", kind=op["kind"], asked={},
            body=b"", arrived_s=time.time(),
        )
        for n in range(2, most + 2)
    ]  # fmt: skip
    await gateway.store.transact(lambda session: session.add_all(waiting))
    assert await ask_in_turn(gateway, model.id, most + 2, **op) == (429, "over_budget")
    assert await ask_in_turn(gateway, model.id, 1, **op) == (200, op["kind"])
    assert await ask_in_turn(gateway, model.id, most + 2, **op) == (429, "over_budget")


async def test_a_refused_op_holds_up_none_that_was_sent_meanwhile(
    gateway: Gateway, model: TrainableModel
) -> None:
    bad = warren.Datum(ids=np.array([1, 2], np.int32), weights=np.ones(3, np.float32))
    calls = (model.forward_backward([bad], warren.CrossEntropyLoss()), model.optim_step(0.1))
    refused, _ = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(refused, warren.ConfigurationError)
    rows = await gateway.store.transact(
        lambda session: list(session.exec(select(RequestRow).order_by(col(RequestRow.sequence))))
    )
    assert [(row.sequence, row.kind) for row in rows] == [(1, "refused"), (2, "optim_step")]
