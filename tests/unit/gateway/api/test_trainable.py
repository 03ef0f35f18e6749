"""Models that clients train, over HTTP: who may do what, what comes twice, and what is wrong with an op.

Nobody drives the models here; `tests/unit/coordinator/test_clients.py` has what becomes of the ops.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from sqlmodel import Session, col, select
from tests.support.gateway import Gateway

import warren
from warren.cli.commands.models import models
from warren.cli.options import Gateway as GatewayOption
from warren.trainable.model import TrainableModel
from warren_gateway.store.tables import RequestRow, Run
from warren_schemas.codec.wire import encode
from warren_schemas.envelope import Envelope
from warren_schemas.http.trainable import FutureAnswer, FuturePending
from warren_schemas.training import OpDone, OpFailed, OpResult, OptimStep

LOSS = {"kind": "cross_entropy"}
UPDATE = {"kind": "forward_backward", "loss": LOSS, "data": [{"ids": [1, 2, 3]}]}
STEP = {"kind": "optim_step", "learning_rate": 0.1}
TWO = np.array([1, 2], np.int32)


async def ask(
    gateway: Gateway, model: str, op: Mapping[str, Any], **fields: Any
) -> tuple[int, dict[str, Any]]:
    path, body = f"/v1/trainable/{model}/ops", {"op": op, **fields}
    async with gateway.ann.post(path, json=body) as response:
        return response.status, await response.json()


@pytest.fixture
async def model(client: warren.Client) -> TrainableModel:
    return await client.create_model("warren/tiny")


async def test_a_model_is_made_once_by_its_key(client: warren.Client) -> None:
    first = await client.create_model("warren/tiny", key="a-key-of-mine", metadata={"a": 1})
    again = await client.create_model("warren/tiny", key="a-key-of-mine", metadata={"a": 1})
    assert first.id == again.id
    with pytest.raises(warren.GatewayError) as caught:
        await client.create_model("warren/tiny", key="a-key-of-mine", seed=3)
    assert caught.value.status == 409
    assert [view.id for view in await client.models()] == [first.id]


async def test_a_client_that_starts_again_goes_on_with_its_numbers(client: warren.Client) -> None:
    first = await client.create_model("warren/tiny", key="a-key-of-mine")
    steps = [await first.optim_step(0.1), await first.optim_step(0.1)]
    again = await client.create_model("warren/tiny", key="a-key-of-mine")
    step = await again.optim_step(0.1)
    assert len({step.id, *(one.id for one in steps)}) == 3
    assert (await again.refresh()).next_sequence == 4


async def test_a_client_that_starts_again_is_heard(gateway: Gateway, client: warren.Client) -> None:
    first = await client.create_model("warren/tiny", key="a-key-of-mine", idle_s=60.0)
    assert first.view.idle_s == 60.0

    def forget(session: Session) -> None:
        """Its owner has changed it meanwhile."""
        run = session.get_one(Run, first.view.run)
        run.client_until_s, run.submitted = 1.0, run.config
        run.config = {**run.config, "limits": {**run.config["limits"], "wait_s": 77.0}}

    await gateway.store.transact(forget)
    again = await client.create_model("warren/tiny", key="a-key-of-mine", idle_s=60.0)
    assert again.view.client_until_s and again.view.client_until_s > first.view.created_s


async def test_the_run_of_a_model_is_listed_as_one(
    client: warren.Client, model: TrainableModel
) -> None:
    run = await client.run(model.view.run)
    assert run.state is warren.RunState.QUEUED
    assert run.view.n_steps == 0


@pytest.mark.parametrize("how", [{"key": "my key"}, {"sequence": 1}])
async def test_the_same_op_again_has_the_same_future_and_another_one_is_refused(
    gateway: Gateway, model: TrainableModel, how: dict[str, Any]
) -> None:
    status, first = await ask(gateway, model.id, UPDATE, **how)
    assert status == 200
    assert await ask(gateway, model.id, UPDATE, **how) == (200, first)
    status, problem = await ask(gateway, model.id, STEP, **how)
    assert status == 409
    assert first["future"] in problem["message"]


async def test_whoever_drives_a_model_is_handed_what_is_new(
    gateway: Gateway, model: TrainableModel
) -> None:
    _, told = await ask(gateway, model.id, STEP, sequence=1)
    await ask(gateway, model.id, STEP, sequence=1)
    new, again = gateway.follower.arrived
    assert new is not None and new.body is not None
    assert (new.id, new.sequence) == (told["future"], 1)
    assert new.body[1] == OptimStep(learning_rate=0.1)
    assert again is None, "it may be in the log already"


async def test_a_sequence_number_is_the_same_request_whatever_its_key(
    gateway: Gateway, model: TrainableModel
) -> None:
    _, first = await ask(gateway, model.id, UPDATE, sequence=1, key="one")
    assert await ask(gateway, model.id, UPDATE, sequence=1, key="two") == (200, first)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"data": [{"ids": [1, 2]}, {"ids": [1, 2], "weights": [1.0]}]}, "data.1: 1 weights for 2 ids"),
    ({"data": [{"ids": [1, 2], "advantages": [0, 1]}]}, "cross_entropy has no use for advantages"),
    ({"loss": {"kind": "ppo"}, "data": [{"ids": [1, 2]}]}, "data.0: ppo needs advantages"),
    ({"data": [{"ids": [1]}]}, "no sequence has a second token"),
    ({"data": [{"ids": []}]}, "data.0: it has no tokens"),
    ({"data": [{"ids": [1, -2]}]}, "token ids of at least 0"),
    ({"data": [{"ids": [1, 2], "weights": [1.0, 1e40]}]}, "weights"),
    ({"data": [{"ids": [1, 2], "logprobs": [0.0, 0.5]}]}, "logprobs of at most 0"),
    ({"data": []}, "data"),
]


@pytest.mark.parametrize(("changes", "told"), BAD)
async def test_a_bad_datum_is_refused_with_its_number_and_the_reason(
    gateway: Gateway, model: TrainableModel, changes: dict[str, Any], told: str
) -> None:
    status, problem = await ask(gateway, model.id, {**UPDATE, **changes}, sequence=1)
    assert status == 422
    assert told in str(problem["details"])
    assert (await ask(gateway, model.id, UPDATE, sequence=1))[0] == 200  # the number is still free


async def test_a_large_op_is_taken(model: TrainableModel) -> None:
    data = [warren.Datum(ids=np.arange(10_000, 20_000, dtype=np.int32))] * 40
    await model.forward_backward(data, warren.CrossEntropyLoss())
    with pytest.raises(warren.ConfigurationError, match="one op takes 500000"):
        await model.forward_backward(data * 2, warren.CrossEntropyLoss())


async def test_nobody_else_sees_or_drives_a_model(gateway: Gateway, model: TrainableModel) -> None:
    future = await model.optim_step(0.1)
    paths = ("", "/kept")
    for path in (*(f"/v1/trainable/{model.id}{p}" for p in paths), f"/v1/futures/{future.id}"):
        async with gateway.ann.get(path) as mine, gateway.bob.get(path) as response:
            assert (mine.status, response.status) == (200, 404)
    for path, body in (
        ("ops", {"op": STEP}),
        ("heard", None),
        ("kept/delete", {"name": "a"}),
        ("kept/ttl", {"name": "a"}),
        ("close", None),
    ):
        async with gateway.bob.post(f"/v1/trainable/{model.id}/{path}", json=body) as response:
            assert response.status == 404
    async with gateway.bob.get("/v1/trainable") as response:
        assert (await response.json())["models"] == []
    body = {"base_model": "warren/tiny", "begin_from": {"checkpoint": f"{model.id}/a"}}
    async with gateway.bob.post("/v1/trainable", json=body) as response:
        assert response.status == 404


async def test_a_model_that_is_shared_is_read_and_not_driven(
    gateway: Gateway, client: warren.Client, model: TrainableModel
) -> None:
    await client.access.share(model.view.run, "bob")
    async with gateway.bob.get(f"/v1/trainable/{model.id}") as response:
        assert response.status == 200
    async with gateway.bob.post(f"/v1/trainable/{model.id}/ops", json={"op": STEP}) as response:
        assert response.status == 404


@pytest.mark.parametrize("name", ["model_1", "run_1", "%00", "a" * 300])
async def test_what_is_not_there_answers_404(gateway: Gateway, name: str) -> None:
    for path in (f"/v1/trainable/{name}", f"/v1/futures/{name}"):
        async with gateway.ann.get(path) as response:
            assert response.status == 404


async def test_an_op_that_waits_says_for_what(model: TrainableModel) -> None:
    await model.forward_backward([datum()], warren.CrossEntropyLoss())
    second = await (await model.optim_step(0.1)).peek()
    assert isinstance(second, FuturePending)
    assert (second.reason, second.n_ahead) == ("the model waits for a trainer", 1)


async def test_who_waits_is_woken_by_the_end_of_the_model(
    gateway: Gateway, client: warren.Client, model: TrainableModel
) -> None:
    future = await model.optim_step(0.1)
    path = f"/v1/futures/{future.id}?wait_s=0.01"
    async with gateway.ann.get(path) as response:
        answer = FutureAnswer.model_validate_json(await response.read())
    assert answer.outcome.state == "pending"
    closed = await model.close()
    assert not closed.state.is_final  # its coordinator ends it
    with pytest.raises(warren.GatewayError) as caught:
        await model.optim_step(0.1)
    assert caught.value.code == "model_closed"


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (warren.Datum(ids=TWO, weights=np.ones(3, np.float32)), "3 weights for 2 ids"),
        (warren.Datum(ids=TWO, targets=np.ones(1, np.int32)), "1 targets for 2 ids"),
    ],
)
async def test_a_refused_op_leaves_no_gap(
    gateway: Gateway, model: TrainableModel, bad: warren.Datum, reason: str
) -> None:
    with pytest.raises(warren.ConfigurationError, match=reason):
        await model.forward_backward([bad], warren.CrossEntropyLoss())
    future = await model.optim_step(0.1)
    skipped = {"kind": "skip", "reason": "something else"}
    status, problem = await ask(gateway, model.id, skipped, sequence=1)
    assert status == 409  # the client has given its number to a skip
    assert future.id not in problem["message"]


async def test_an_op_that_is_given_up_behind_a_gap_leaves_none(
    gateway: Gateway, model: TrainableModel
) -> None:
    bad = warren.Datum(ids=TWO, weights=np.ones(3, np.float32))
    with pytest.raises(warren.ConfigurationError):
        await model.forward_backward([bad], warren.CrossEntropyLoss())
    given_up = asyncio.ensure_future(model.optim_step(0.1))
    await asyncio.sleep(0)  # it has its number, and fills the gap before it
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    await model.optim_step(0.2)
    for sequence in (1, 2):
        status, _ = await ask(gateway, model.id, UPDATE, sequence=sequence)
        assert status == 409


async def test_ops_asked_for_at_once_keep_the_order_of_the_calls(
    gateway: Gateway, model: TrainableModel
) -> None:
    calls = [model.optim_step(rate / 100) for rate in range(8)]
    futures = await asyncio.gather(*calls)
    for sequence, future in enumerate(futures, 1):
        step = {**STEP, "learning_rate": (sequence - 1) / 100}
        status, known = await ask(gateway, model.id, step, sequence=sequence)
        # the client said all defaults as well, which are the same op
        assert (status, known["future"]) == (200, future.id)


async def test_a_run_can_t_be_submitted_for_a_client(gateway: Gateway) -> None:
    config = {
        "model": {"base": "warren/tiny"},
        "environments": [{"name": "guess"}],
        "source": {"kind": "client"},
    }
    async with gateway.ann.post("/v1/runs", json={"config": config}) as response:
        assert response.status == 422
        assert "docs/primitives.md" in str(await response.json())


async def test_the_newest_ops_are_listed_with_what_came_of_them(
    gateway: Gateway,
    client: warren.Client,
    model: TrainableModel,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trained = await model.forward_backward([datum()], warren.CrossEntropyLoss())
    stepped, published = await model.optim_step(0.1), await model.publish()
    done = OpDone(version=0, metrics={"loss:sum": 1.5, "tokens:sum": 2.0, "nll:mean": 0.75})
    failed = OpFailed(reason="the gradient's norm is nan")

    def answer(session: Session) -> None:
        for future, outcome in ((trained, done), (stepped, failed)):
            result = OpResult(
                envelope=Envelope(), model=model.id, epoch=1, number=1, outcome=outcome
            )
            row = session.exec(select(RequestRow).where(col(RequestRow.id) == future.id)).one()
            row.op, row.outcome, row.done_s = 1, encode([result]), row.arrived_s + 2.0
            session.add(row)

    await gateway.store.transact(answer)
    newest, second, third = await client.model_ops(model.id)
    assert (newest.future, newest.kind, newest.state) == (published.id, "publish_policy", "waiting")
    assert (second.state, second.reason) == ("failed", "the gradient's norm is nan")
    assert (third.future, third.state, third.metrics) == (trained.id, "done", done.metrics)
    assert third.done_s == third.arrived_s + 2.0
    assert await client.model_ops(model.id, limit=1) == (newest,)
    async with gateway.bob.get(f"/v1/trainable/{model.id}/ops") as response:
        assert response.status == 404
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    here = GatewayOption(url=gateway.url, api_key=key)
    await asyncio.to_thread(models.ops, model.id, gateway=here)
    told = capsys.readouterr().out
    assert "1.5" in told and "nll:mean 0.75" in told and "norm is nan" in told


async def test_the_commands_show_and_close_models(
    gateway: Gateway, model: TrainableModel, capsys: pytest.CaptureFixture[str]
) -> None:
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    here = GatewayOption(url=gateway.url, api_key=key)
    await asyncio.to_thread(models.ls, gateway=here)
    assert model.id in capsys.readouterr().out
    await asyncio.to_thread(models.show, model.id, gateway=here)
    assert "warren/tiny (lora)" in capsys.readouterr().out
    await asyncio.to_thread(models.close, model.id, gateway=here)
    assert "being closed" in capsys.readouterr().out


def datum() -> warren.Datum:
    return warren.Datum(ids=np.array([1, 2, 3], np.int32))
