"""Models of Tinker's clients over HTTP: what is accepted, in which order, by whom it is seen."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from sqlmodel import col, select
from tests.support.gateway import Gateway, heartbeat, open_gateway
from tests.support.tinker import Json, Wire, loss_op, zstd

from warren_broker.port import Broker
from warren_gateway.access.caller import Viewer
from warren_gateway.settings import GatewayOptions
from warren_gateway.store.store import Store
from warren_gateway.store.tables import RequestRow
from warren_gateway.tinker.creating import weights_told
from warren_gateway.tinker.paths import key_of
from warren_gateway.tinker.wire import messages
from warren_schemas.base_models.names import UPLOADED
from warren_schemas.codec.wire import decode
from warren_schemas.control import WorkerRole
from warren_schemas.http.trainable import MAX_DATA, CreateModel
from warren_schemas.training import Op, OpBody, Refused

BASE = "warren/tiny"


@pytest.fixture
def ann(gateway: Gateway) -> Wire:
    return Wire(gateway.ann)


@pytest.fixture
def bob(gateway: Gateway) -> Wire:
    return Wire(gateway.bob)


@pytest_asyncio.fixture
async def model(gateway: Gateway, ann: Wire) -> AsyncGenerator[str]:
    """One of Ann's; the trainer for it isn't there yet."""
    name = f"{await ann.session()}:train:0"
    body = CreateModel(base_model=BASE, name=name, key=key_of(name), metadata={"of": "ann"})
    await gateway.services.models.create(Viewer("ann"), body)
    yield name


async def asked_for(gateway: Gateway) -> list[tuple[int | None, str]]:
    rows = await gateway.store.transact(
        lambda session: list(session.exec(select(RequestRow).order_by(col(RequestRow.number))))
    )
    return [(row.sequence, row.kind) for row in rows]


async def ops_of(gateway: Gateway) -> list[OpBody]:
    rows = await gateway.store.transact(
        lambda session: list(session.exec(select(RequestRow).order_by(col(RequestRow.number))))
    )
    ops = [item for row in rows if row.body is not None for item in decode(row.body).items]
    return [op.body for op in ops if isinstance(op, Op)]


async def test_ops_are_accepted_in_any_order_and_twice(
    gateway: Gateway, ann: Wire, model: str
) -> None:
    second = await ann.train(loss_op(model, 2))
    first = await ann.train(loss_op(model, 1))
    assert await ann.train(loss_op(model, 2)) == second != first
    await ann.post("optim_step", {"model_id": model, "seq_id": 3, "adam_params": {"eps": 0.0}})
    await ann.post("save_weights", {"model_id": model, "seq_id": 4, "path": "s1"})
    saved: Json = {"model_id": model, "seq_id": 5, "sampling_session_seq_id": 0}
    await ann.post("save_weights_for_sampler", saved)
    path = f"tinker://{model}/weights/s1"
    await ann.post("load_weights", {"model_id": model, "seq_id": 6, "path": path})
    assert await asked_for(gateway) == [
        (2, "forward_backward"),
        (1, "forward_backward"),
        (3, "optim_step"),
        (4, "save_state"),
        (5, "publish_policy"),
        (6, "load_state"),
    ]


async def test_an_op_may_come_compressed(gateway: Gateway, ann: Wire, model: str) -> None:
    first = await ann.train(zstd(loss_op(model, 1)), encoding="zstd")
    assert await ann.train(loss_op(model, 1)) == first
    assert await asked_for(gateway) == [(1, "forward_backward")]
    config = await ann.post("client/config")
    assert config["proto_compress_fwdbwd"] is True
    assert config["sample_enable_stuck_detection"] is False, "the SDK's own default is true"


async def test_what_cant_be_done_takes_its_place_and_fails_there(
    gateway: Gateway, ann: Wire, model: str
) -> None:
    await ann.train(loss_op(model, 1, "stable_reinforce"))
    muon = {"type": "dimuon", "learning_rate": 1.0}
    await ann.post("optim_step", {"model_id": model, "seq_id": 2, "optimizer_params": muon})
    await ann.post("save_weights", {"model_id": model, "seq_id": 3, "path": "not a name"})
    nowhere: Json = {"model_id": model, "seq_id": 4, "path": "tinker://nobody:train:0/weights/x"}
    await ann.post("load_weights", nowhere)
    few_bytes = messages.ForwardBackwardRequest.FromString(loss_op(model, 5))
    few_bytes.data[0].loss_fn_inputs["target_tokens"].shape.extend([2, MAX_DATA + 1])
    await ann.train(few_bytes.SerializeToString())
    assert await asked_for(gateway) == [(n, "refused") for n in (1, 2, 3, 4, 5)]
    await ann.train(b"\xff\xff\xff", status=400)


async def test_the_number_alone_says_which_op_it_is(
    gateway: Gateway, ann: Wire, model: str
) -> None:
    """A request that was lost on its way back comes again, when what it names may be gone, or be there."""
    load: Json = {"model_id": model, "seq_id": 1, "path": "tinker://nobody:train:0/weights/x"}
    future = await ann.post("load_weights", load)
    assert await ann.post("load_weights", load | {"path": f"tinker://{model}/weights/x"}) == future
    save: Json = {"model_id": model, "seq_id": 1, "path": "s1"}
    assert await ann.post("save_weights", save) == future
    assert await asked_for(gateway) == [(1, "refused")]


async def test_access_tokens_of_others_are_refused_where_weights_are_loaded(
    gateway: Gateway, ann: Wire, model: str
) -> None:
    token: Json = {"path": f"tinker://{model}/weights/s1", "weights_access_token": "tml-other"}
    await ann.post("load_weights", {"model_id": model, "seq_id": 1, **token})
    [refused] = await ops_of(gateway)
    assert isinstance(refused, Refused) and "Access tokens of other accounts" in refused.reason
    anew: Json = {"session_id": await ann.session(), "model_seq_id": 1, **token}
    told = await ann.post("load_weights", anew, status=400)
    assert "Let the checkpoint's owner publish it" in told["detail"]


async def test_a_step_that_is_refused_drops_the_gradient_before_it(
    gateway: Gateway, ann: Wire, model: str
) -> None:
    steps: list[Json] = [
        {"optimizer_params": {"type": "dimuon", "learning_rate": 1.0}},
        {},
        {"adam_params": {"beta1": 7.0}},
        {"adam_params": {"learning_rate": "fast"}},
    ]
    for number, step in enumerate(steps, start=1):
        await ann.post("optim_step", {"model_id": model, "seq_id": number, **step})
    await ann.post("save_weights", {"model_id": model, "seq_id": 5, "path": "not a name"})
    await ann.post("save_weights", {"model_id": model, "seq_id": 6, "paths": "s1"})
    ops = await ops_of(gateway)
    assert [op.begins_window for op in ops if isinstance(op, Refused)] == [True] * 4 + [False] * 2
    assert not any(op.spoils_gradient for op in ops if isinstance(op, Refused))


async def test_stable_reinforce_is_what_the_operator_says(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    options = GatewayOptions(tinker_stable_reinforce="cispo")
    async with open_gateway(store, broker, tmp_path / "runs", options=options) as gateway:
        ann = Wire(gateway.ann)
        begun = await ann.post("create_session", {})
        assert "Who asks for the loss stable_reinforce gets cispo." in begun["info_message"]
        asked: Json = {"model_seq_id": 0, "base_model": BASE} | begun
        model = (await ann.post("create_model", asked))["model_id"]
        body = messages.ForwardBackwardRequest.FromString(loss_op(model, 1, "stable_reinforce"))
        for name in ("advantages", "logprobs"):
            body.data[0].loss_fn_inputs[name].CopyFrom(body.data[0].loss_fn_inputs["weights"])
        await ann.train(body.SerializeToString())
        assert await asked_for(gateway) == [(1, "forward_backward")]


async def test_a_model_that_nobody_can_train_is_refused(gateway: Gateway, ann: Wire) -> None:
    session = await ann.session()
    asked: Json = {"session_id": session, "model_seq_id": 0, "base_model": "no/such"}
    gateway.services.registry.hear(heartbeat("t1", WorkerRole.TRAINER, BASE))
    told = await ann.post("create_model", asked, status=400)
    assert f"No trainer offers no/such; online, or loaded when asked for: {BASE}" in told["detail"]
    uploaded = heartbeat("t3", WorkerRole.TRAINER, f"{UPLOADED}1")
    gateway.services.registry.hear(uploaded)
    assert UPLOADED not in (await ann.post("create_model", asked, status=400))["detail"]
    for number, field in enumerate(("drained_offers", "loading", "may_load"), start=1):
        later = heartbeat("t2", WorkerRole.TRAINER, BASE)
        gateway.services.registry.hear(later.model_copy(update={field: ("no/such",)}))
        await ann.post("create_model", asked | {"model_seq_id": number})
    load: Json = {"session_id": session, "model_seq_id": 0, "path": "tinker://x:train:0/weights/y"}
    assert "no checkpoint" in (await ann.post("load_weights", load, status=400))["detail"]


@pytest.mark.parametrize(
    ("lora", "told"),
    [
        (None, (None, None, None)),
        ({"rank": 4}, (True, True, False)),
        ({"rank": 4, "train_mlp": False}, (False, True, False)),
        ({"rank": 4, "train_attn": False}, (True, False, False)),
    ],
)
async def test_weights_tell_which_layers_of_theirs_were_trained(
    gateway: Gateway, ann: Wire, lora: Json | None, told: tuple[bool | None, ...]
) -> None:
    asked: Json = {"session_id": await ann.session(), "model_seq_id": 0, "base_model": BASE}
    name = (await ann.post("create_model", asked | {"lora_config": lora}))["model_id"]
    info = weights_told((await gateway.services.tinker.models.find(Viewer("ann"), name)).spec)
    assert (info.is_lora, info.lora_rank) == ((False, None) if lora is None else (True, 4))
    assert (info.train_mlp, info.train_attn, info.train_unembed) == told


async def test_a_model_waits_where_no_trainer_is_heard_of_yet(ann: Wire) -> None:
    session = await ann.session()
    asked: Json = {"session_id": session, "model_seq_id": 0, "base_model": BASE}
    assert (await ann.post("create_model", asked))["model_id"] == f"{session}:train:0"


@pytest.mark.parametrize("tags", [(), ("of-mine", "deterministic")])
async def test_models_of_a_session_with_the_tag_share_no_batches(
    gateway: Gateway, ann: Wire, tags: tuple[str, ...]
) -> None:
    asked: Json = {"session_id": await ann.session(*tags), "model_seq_id": 0, "base_model": BASE}
    name = (await ann.post("create_model", asked))["model_id"]
    model = await gateway.services.models.find(Viewer("ann"), key_of(name))
    assert model is not None
    assert model.deterministic == ("deterministic" in tags)


async def test_what_is_not_offered_says_what_is(ann: Wire) -> None:
    told = await ann.post("create_custom_loss", {}, status=404)
    assert "forward_backward_custom takes it" in told["detail"]


async def test_runs_are_listed_with_what_is_kept(ann: Wire, model: str) -> None:
    info = await ann.post("get_info", {"model_id": model})
    assert (info["model_name"], info["is_lora"], info["lora_rank"]) == (BASE, True, 16)
    listed = await ann.get("training_runs?limit=20&offset=0&access_scope=owned")
    assert [run["training_run_id"] for run in listed["training_runs"]] == [model]
    assert listed["cursor"]["total_count"] == 1
    assert (await ann.get(f"training_runs/{model}"))["user_metadata"] == {"of": "ann"}
    assert await ann.get(f"training_runs/{model}/checkpoints") == {
        "checkpoints": [],
        "cursor": None,
    }
    session = model.partition(":")[0]
    assert (await ann.get(f"sessions/{session}"))["training_run_ids"] == [model]
    await ann.post("session_heartbeat", {"session_id": session})
    await ann.post("weights_info", {"tinker_path": f"tinker://{model}/weights/s"}, status=404)


async def test_another_tenant_finds_no_model_run_path_or_future(
    ann: Wire, bob: Wire, model: str
) -> None:
    future = (await ann.train(loss_op(model, 1)))["request_id"]
    await bob.outcome(future, status=410)
    await bob.train(loss_op(model, 2), status=404)
    for path in ("optim_step", "get_info"):
        await bob.post(path, {"model_id": model, "seq_id": 2, "adam_params": {}}, status=404)
    await bob.get(f"training_runs/{model}", status=404)
    await bob.get(f"training_runs/{model}/checkpoints", status=404)
    assert (await bob.get("training_runs?access_scope=accessible"))["training_runs"] == []
    session = model.partition(":")[0]
    stolen: Json = {"session_id": session, "model_seq_id": 1, "base_model": BASE}
    await bob.post("create_model", stolen, status=404)
    own: Json = {
        "session_id": await bob.session(),
        "model_seq_id": 0,
        "path": f"tinker://{model}/weights/s1",
    }
    await bob.post("load_weights", own, status=400)
    sampler: Json = {
        "session_id": own["session_id"],
        "sampling_session_seq_id": 0,
        "model_path": f"tinker://{model}/sampler_weights/w1",
    }
    await bob.post("create_sampling_session", sampler, status=404)
    assert [run["training_run_id"] for run in (await ann.get("training_runs"))["training_runs"]]
