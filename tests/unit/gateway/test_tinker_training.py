"""The Tinker protocol's protobuf -> requests of ours, and results -> protobuf."""

import numpy as np
import pytest

from warren_gateway.coordinator.state.client import Asked
from warren_gateway.tinker.asked_prompts import MOST_PROMPT_TOKENS
from warren_gateway.tinker.paths import InvalidPath, SavedWeightsPath, key_of, name_of, session_of
from warren_gateway.tinker.results import Noted, result_of
from warren_gateway.tinker.samples.answering import CantSample
from warren_gateway.tinker.sampling import question_of
from warren_gateway.tinker.tensors import CantTrain
from warren_gateway.tinker.training import asked, stands_for
from warren_gateway.tinker.wire import messages
from warren_gateway.trainable.outcomes import Done, Request
from warren_schemas.config import CispoLoss, DroLoss, PpoLoss
from warren_schemas.episode import PolicyRef
from warren_schemas.http.trainable import ForwardAsked, ForwardBackwardAsked
from warren_schemas.ids import ModelId, RunId
from warren_schemas.tinker.requests import Sample
from warren_schemas.training import OpDone

RECORDED_PPO = bytes.fromhex(
    "0a09533a747261696e3a3010011a88010a100a0e0a0c05000000060000000700000012210a0a616476616e74616765731213"
    "0a0c000000000000803f0000803f1801220103121f0a086c6f6770726f627312130a0c00000000000080bf000000c01801"
    "22010312300a0d7461726765745f746f6b656e73121f0a18060000000000000007000000000000000800000000000000"
    "1802220103220370706f2a1d0a12636c69705f6c6f775f7468726573686f6c64119a9999999999e93f"
)
"""What the SDK 0.38 sends."""


def tensor(
    values: list[float], dtype: str = "<f4", shape: list[int] | None = None
) -> messages.Tensor:
    made = messages.Tensor()
    made.dense = np.array(values, dtype).tobytes()
    made.dtype = {"<f4": messages.FLOAT32, "<i8": messages.INT64}[dtype]
    made.shape.extend(shape or [])
    return made


def request(
    loss: str, inputs: list[int], **tensors: messages.Tensor
) -> messages.ForwardBackwardRequest:
    made = messages.ForwardBackwardRequest()
    made.loss_fn = loss
    datum = made.data.add()
    for part in (inputs[:1], inputs[1:]):
        datum.model_input.add().encoded_text.tokens = np.array(part, "<i4").tobytes()
    for name, value in tensors.items():
        datum.loss_fn_inputs[name].CopyFrom(value)
    return made


def test_what_the_sdk_sends_is_read() -> None:
    op = asked(messages.ForwardBackwardRequest.FromString(RECORDED_PPO))
    assert isinstance(op, ForwardBackwardAsked)
    assert op.loss == PpoLoss(clip_low=0.8, clip_high=1.2)
    (datum,) = op.data
    assert datum.ids.tolist() == [5, 6, 7, 8]
    assert datum.advantages is not None and datum.logprobs is not None
    assert datum.advantages.tolist() == [0, 0, 1, 1]
    assert datum.logprobs.tolist() == [0, 0, -1, -2]


def test_targets_without_weights_add_nothing_and_are_told_all_the_same() -> None:
    made = request("cross_entropy", [2, 5], target_tokens=tensor([5, 7], "<i8"))
    made.forward_only = True
    op = asked(made)
    assert isinstance(op, ForwardAsked)
    weights, mask = op.data[0].weights, op.data[0].mask
    assert weights is not None and mask is not None
    assert (weights.tolist(), mask.tolist()) == ([0, 0, 0], [0, 1, 1])


def test_targets_may_be_other_tokens_than_the_next_ones() -> None:
    same = {name: tensor([0.0, -1.0]) for name in ("advantages", "logprobs")}
    (datum,) = asked(request("ppo", [2, 5], target_tokens=tensor([2, 5], "<i8"), **same)).data
    assert datum.targets is not None and datum.advantages is not None
    assert (datum.ids.tolist(), datum.targets.tolist()) == ([2, 5, 5], [2, 2, 5])
    assert datum.advantages.tolist() == [0, 0, -1]


def test_settings_of_losses_are_absolute_thresholds() -> None:
    three = {name: tensor([0.0, 1.0]) for name in ("advantages", "logprobs")}
    three["logprobs"] = tensor([0.0, 0.5])  # above 0 by rounding
    made = request("cispo", [2, 5], target_tokens=tensor([5, 7], "<i8"), **three)
    made.loss_fn_config_v2["clip_high_threshold"].number = 3.0
    op = asked(made)
    assert op.loss == CispoLoss(clip_low=0.8, clip_high=3.0)
    assert op.data[0].logprobs is not None and op.data[0].logprobs.max() == 0
    made.loss_fn = "dro"
    made.loss_fn_config_v2.clear()
    assert asked(made).loss == DroLoss(beta=0.05)


@pytest.mark.parametrize(
    ("loss", "tensors", "reason"),
    [
        ("stable_reinforce", {}, "loss_fn=ppo, cispo or importance_sampling"),
        ("mine", {}, "there is no loss mine"),
        ("custom", {}, "call forward_backward_custom"),
        ("cross_entropy", {}, "target_tokens are missing"),
        ("cross_entropy", {"target_tokens": tensor([5, -100], "<i8")}, "can't be a token's id"),
        ("cross_entropy", {"target_tokens": tensor([5, 1 << 32], "<i8")}, "can't be a token's id"),
        ("cross_entropy", {"target_tokens": tensor([5], "<i8")}, "1 values for 2 tokens"),
        ("ppo", {"target_tokens": tensor([5, 7], "<i8")}, "needs advantages and logprobs"),
        (
            "cross_entropy",
            {"target_tokens": tensor([5, 7], "<i8", [1, 2])},
            "the shape .1, 2. for 2",
        ),
    ],
)
def test_what_cant_be_trained_on_says_why(
    loss: str, tensors: dict[str, messages.Tensor], reason: str
) -> None:
    with pytest.raises(CantTrain, match=reason):
        asked(request(loss, [2, 5], **tensors))


def test_the_loss_that_stands_for_stable_reinforce_has_its_own_defaults_and_none_of_its_settings() -> (
    None
):
    per_token = {name: tensor([0.0, -1.0]) for name in ("advantages", "logprobs")}
    made = request("stable_reinforce", [2, 5], target_tokens=tensor([5, 7], "<i8"), **per_token)
    assert asked(made, "cispo").loss == CispoLoss(clip_low=0.8, clip_high=1.2)
    assert (stands_for(made, "cispo"), stands_for(made, "refused")) == ("cispo", None)
    made.loss_fn_config_v2["kl_coeff"].number = 0.1
    with pytest.raises(CantTrain, match=r"cispo is computed here .* leave kl_coeff out"):
        asked(made, "cispo")
    made.loss_fn, own = "ppo", {"clip_low": 0.9, "clip_high": 1.2}
    made.loss_fn_config_v2.clear()
    made.loss_fn_config_v2["clip_low_threshold"].number = own["clip_low"]
    assert asked(made, "cispo").loss == PpoLoss.model_validate(own), (
        "what has a formula is computed"
    )
    assert stands_for(made, "cispo") is None


def test_images_and_settings_that_there_are_not_are_refused() -> None:
    made = request("cross_entropy", [2, 5], target_tokens=tensor([5, 7], "<i8"))
    made.loss_fn_config_v2["alpha"].number = 1.0
    with pytest.raises(CantTrain, match="no setting alpha"):
        asked(made)
    made.loss_fn_config_v2.clear()
    made.data[0].model_input.add().image.data = b"x"
    with pytest.raises(CantTrain, match="image"):
        asked(made)


def test_logprobs_are_told_by_datum_without_the_first_token_of_each() -> None:
    outcome = OpDone(
        version=1,
        metrics={"loss:sum": 2.5},
        logprobs_N=np.array([0, -1, -2, 0, -3], np.float32),
    )
    its_request = Request(
        "future_1", ModelId("model_1"), RunId("run_1"), "forward", Asked(lengths=[3, 2])
    )
    told = result_of(Done(its_request, outcome), Noted(model="s:train:0"), None)
    assert isinstance(told, bytes)
    output = messages.ForwardBackwardOutput.FromString(told)
    (record,) = output.loss_fn_outputs
    field = record.fields["logprobs"]
    assert np.frombuffer(field.data, "<f4").tolist() == [-1, -2, -3]
    assert np.frombuffer(field.offsets, "<i8").tolist() == [0, 8, 12]
    assert (record.num_datums, dict(output.metrics)) == (2, {"loss:sum": 2.5})
    noted = Noted(model="s:train:0", stands_for="ppo")
    told = result_of(Done(its_request, outcome), noted, None)
    assert isinstance(told, bytes)
    metrics = messages.ForwardBackwardOutput.FromString(told).metrics
    assert dict(metrics) == {"loss:sum": 2.5, "stable_reinforce_as_ppo:max": 1.0}


def test_names_and_paths_of_the_protocol() -> None:
    path = SavedWeightsPath.parse("tinker://session_1:train:0/sampler_weights/w.1")
    assert (path.model, path.kind, path.name) == ("session_1:train:0", "sampler_weights", "w.1")
    assert SavedWeightsPath.parse(f"{path}") == path
    assert session_of("session_1:train:0") == "session_1"
    assert session_of("session_1:sample:0") is None
    assert name_of(key_of("session_1:train:0")) == "session_1:train:0"
    for bad in ("tinker://a/b", "tinker://a/other/c", "file://a/weights/b", "run@3"):
        with pytest.raises(InvalidPath):
            SavedWeightsPath.parse(bad)


@pytest.mark.parametrize(
    ("prompt", "sampling", "reason"),
    [
        ([1], {"stop": [-1]}, "end_ids"),
        ([1] * (MOST_PROMPT_TOKENS + 1), {}, "are the most"),
    ],
)
def test_what_cant_be_sampled_says_why(
    prompt: list[int], sampling: dict[str, object], reason: str
) -> None:
    chunks = [{"type": "encoded_text", "tokens": prompt}]
    wanted = Sample.model_validate(
        {
            "sampling_session_id": "s",
            "seq_id": 0,
            "prompt": {"chunks": chunks},
            "sampling_params": sampling,
        }
    )
    policy = PolicyRef(model=ModelId("m"), base_model="b", min_version=0)
    with pytest.raises(CantSample, match=reason):
        question_of(wanted, policy)
