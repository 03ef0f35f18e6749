"""What a client asks of a trainer in protobuf -> an op's request.

The protocol's tensors stand at the token before the one that they are of: `target_tokens[t]` comes after
`model_input[t]`. Ours stand at the token itself, so each sequence gets its last target behind it, and each array a 0
in front. Targets that are other tokens than the input's next ones are told beside it.

Legend: `_T` tokens of the protocol's input, `_S` those of the whole sequence, one more.
"""

from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from warren_gateway.tinker.wire import messages
from warren_schemas.config import Loss
from warren_schemas.http.trainable import Datum, ForwardAsked, ForwardBackwardAsked

LOSSES: dict[str, Mapping[str, str]] = {
    "cross_entropy": {},
    "importance_sampling": {},
    "ppo": {"clip_low_threshold": "clip_low", "clip_high_threshold": "clip_high"},
    "cispo": {"clip_low_threshold": "clip_low", "clip_high_threshold": "clip_high"},
    "gspo": {"clip_low_threshold": "clip_low", "clip_high_threshold": "clip_high"},
    "dro": {"beta": "beta"},
}
"""Of each loss, what its settings are called with us."""
DEFAULTS: dict[str, dict[str, float]] = {
    "ppo": {"clip_low": 0.8, "clip_high": 1.2},
    "cispo": {"clip_low": 0.8, "clip_high": 1.2},
    "gspo": {"clip_low": 0.8, "clip_high": 1.2},
}
"""Of the protocol, where they are not ours."""

_LOSS: TypeAdapter[Loss] = TypeAdapter(Loss)
_DTYPES = {messages.FLOAT32: "<f4", messages.INT64: "<i8", messages.INT32: "<i4"}


class CantTrain(ValueError):
    """No trainer can do this; says why."""


def asked(request: messages.ForwardBackwardRequest) -> ForwardAsked | ForwardBackwardAsked:
    """Raises `CantTrain`."""
    loss = _loss(request)
    if not request.data:
        raise CantTrain("there is no data")
    data = tuple(_datum(i, datum, loss) for i, datum in enumerate(request.data))
    kind = ForwardAsked if request.forward_only else ForwardBackwardAsked
    return kind(loss=loss, data=data)


def _loss(request: messages.ForwardBackwardRequest) -> Loss:
    name = request.loss_fn
    if name not in LOSSES:
        raise CantTrain(_unknown(name))
    given: dict[str, object] = {"kind": name, **DEFAULTS.get(name, {})}
    for key, value in _settings(request).items():
        if key not in LOSSES[name]:
            known = ", ".join(LOSSES[name]) or "none"
            raise CantTrain(f"{name} has no setting {key}; it has {known}")
        given[LOSSES[name][key]] = value
    try:
        return _LOSS.validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise CantTrain(f"{name}: {first['loc'][-1]}: {first['msg']}") from error


def _unknown(name: str) -> str:
    if name == "stable_reinforce":
        return (
            "the formula of stable_reinforce is not public, so it is not offered here; pass"
            " loss_fn=ppo, cispo or importance_sampling instead (in the cookbook: loss_fn=ppo)"
        )
    return f"there is no loss {name}; there are {', '.join(LOSSES)}"


def _settings(request: messages.ForwardBackwardRequest) -> dict[str, float]:
    """Newer clients write them twice, and what is a text only in the second place."""
    found = dict(request.loss_fn_config)
    for key, value in request.loss_fn_config_v2.items():
        if value.WhichOneof("value") == "text":
            raise CantTrain(f"{key} is a text, and every setting of a loss is a number")
        found[key] = value.number
    return found


def _datum(index: int, datum: messages.Datum, loss: Loss) -> Datum:
    try:
        return _translated(datum, loss)
    except ValidationError as error:
        first = error.errors()[0]
        raise CantTrain(f"data.{index}.{first['loc'][0]}: {first['msg']}") from error
    except CantTrain as error:
        raise CantTrain(f"data.{index}: {error}") from error


def _translated(datum: messages.Datum, loss: Loss) -> Datum:
    inputs_T = _input_ids(datum)
    targets_T = _array(datum, "target_tokens", inputs_T.size)
    if targets_T is None:
        raise CantTrain("target_tokens are missing")
    if not _are_ids(targets_T):
        raise CantTrain("target_tokens has what can't be a token's id")
    ids_S = np.append(inputs_T, targets_T[-1:]).astype(np.int32)
    targets_S = None
    if not np.array_equal(targets_T[:-1], inputs_T[1:]):
        targets_S = np.append(inputs_T[:1], targets_T).astype(np.int32)
    if loss.kind == "cross_entropy":
        weights_T = _array(datum, "weights", inputs_T.size)
        weights_S = _behind(np.zeros(inputs_T.size) if weights_T is None else weights_T)
        mask_S = _everything(ids_S)
        return Datum(ids=ids_S, targets=targets_S, weights=weights_S, mask=mask_S)
    advantages_T = _array(datum, "advantages", inputs_T.size)
    logprobs_T = _array(datum, "logprobs", inputs_T.size)
    if advantages_T is None or logprobs_T is None:
        raise CantTrain(f"{loss.kind} needs advantages and logprobs")
    return Datum(
        ids=ids_S,
        targets=targets_S,
        advantages=_behind(advantages_T),
        logprobs=_behind(np.minimum(logprobs_T, 0.0)),
    )


def _are_ids(values_T: "NDArray[np.generic]") -> bool:
    return bool(np.array_equal(values_T, np.abs(values_T.astype(np.int32))))


def _everything(ids_S: NDArray[np.int32]) -> NDArray[np.uint8]:
    """All but the first: what has no weight adds nothing, and its logprob is told."""
    mask_S = np.ones(ids_S.size, np.uint8)
    mask_S[:1] = 0
    return mask_S


def _behind(values_T: "NDArray[np.generic]") -> NDArray[np.float32]:
    return np.append(np.zeros(1, np.float32), values_T.astype(np.float32)).astype(np.float32)


def _input_ids(datum: messages.Datum) -> NDArray[np.int32]:
    parts = list[NDArray[np.int32]]()
    for chunk in datum.model_input:
        kind = chunk.WhichOneof("chunk")
        if kind != "encoded_text":
            raise CantTrain(f"model_input has a chunk of the type {kind}; there are tokens alone")
        parts.append(_decoded(chunk.encoded_text.tokens, "<i4", "model_input").astype(np.int32))
    if not sum(part.size for part in parts):
        raise CantTrain("model_input has no tokens")
    return np.concatenate(parts)


def _array(datum: messages.Datum, name: str, n_tokens: int) -> "NDArray[np.generic] | None":
    """One value for each token of the input; None where there is no such tensor."""
    if name not in datum.loss_fn_inputs:
        return None
    tensor = datum.loss_fn_inputs[name]
    if tensor.WhichOneof("encoding") == "sparse_csr":
        raise CantTrain(f"{name} is sparse; one target for each token is offered here")
    if len(tensor.shape) > 1 and tensor.shape[-1] != 1:
        raise CantTrain(f"{name} has {len(tensor.shape)} axes; one value for each token is offered")
    if tensor.dtype not in _DTYPES:
        raise CantTrain(f"{name} has a data type that is not offered; there are float32 and int64")
    values_T = _decoded(tensor.dense, _DTYPES[tensor.dtype], name)
    if values_T.size != n_tokens:
        raise CantTrain(f"{name} has {values_T.size} values for {n_tokens} tokens")
    return values_T


def _decoded(data: bytes, dtype: str, name: str) -> "NDArray[np.generic]":
    try:
        return cast("NDArray[np.generic]", np.frombuffer(data, dtype))
    except ValueError as error:
        raise CantTrain(f"{name}: {len(data)} bytes are no whole number of values") from error
