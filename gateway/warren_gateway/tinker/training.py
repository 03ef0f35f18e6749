"""What a client asks of a trainer in protobuf -> an op's request.

The protocol's tensors stand at the token before the one that they are of: `target_tokens[t]` comes after
`model_input[t]`. Ours stand at the token itself, so each sequence gets its last target behind it, and each array a 0
in front. Targets that are other tokens than the input's next ones are told beside it. Of a datum that has several
targets for each token there is a sequence for each of them, one after another: trainers compute what they share once.
Invariant: few bytes may say that there are many targets, so nothing is made of a request before they are counted.

Legend: `_T` tokens of the protocol's input, `_K` targets for each, `_S` tokens of the whole sequence, one more.
"""

from collections.abc import Mapping
from operator import mul
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from warren_gateway.settings import StableReinforce
from warren_gateway.tinker.tensors import CantTrain, decoded, n_columns, table
from warren_gateway.tinker.wire import messages
from warren_gateway.trainable.batches import MOST_TOKENS
from warren_schemas.config import Loss
from warren_schemas.http.trainable import MAX_DATA, Datum, ForwardAsked, ForwardBackwardAsked

STABLE_REINFORCE = "stable_reinforce"
CUSTOM = "custom"
REFUSED: Final = "refused"

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


def asked(
    request: messages.ForwardBackwardRequest, stable_reinforce: StableReinforce = REFUSED
) -> ForwardAsked | ForwardBackwardAsked:
    """`stable_reinforce` is the loss that is computed where this one is asked for. Raises `CantTrain`."""
    loss = _loss(request, _loss_name(request, stable_reinforce))
    if not request.data:
        raise CantTrain("there is no data")
    _require_few(size_of(request))
    data = tuple(made for i, datum in enumerate(request.data) for made in _datum(i, datum, loss))
    kind = ForwardAsked if request.forward_only else ForwardBackwardAsked
    return kind(loss=loss, data=data)


def targets_of(request: messages.ForwardBackwardRequest) -> list[int]:
    """How many targets each token has, by datum; 0 where they have one axis, which their logprobs have, too."""
    return [_n_targets(datum) for datum in request.data]


def _n_targets(datum: messages.Datum) -> int:
    tensors = datum.loss_fn_inputs  # asked for what it lacks, it would have it
    return n_columns(tensors["target_tokens"]) if "target_tokens" in tensors else 0


class Size(NamedTuple):
    n_sequences: int
    n_targets: int
    """Of all tokens, those too that no sparse tensor lists."""


def size_of(request: messages.ForwardBackwardRequest) -> Size:
    """What a request says it has, however few bytes say it."""
    widths = [max(n, 1) for n in targets_of(request)]
    return Size(sum(widths), sum(map(mul, map(_n_tokens, request.data), widths)))


def _n_tokens(datum: messages.Datum) -> int:
    return sum(len(chunk.encoded_text.tokens) for chunk in datum.model_input) // 4


def _require_few(size: Size) -> None:
    if size.n_sequences > MAX_DATA:
        raise CantTrain(
            f"there are {size.n_sequences} sequences, one for each column of targets, and {MAX_DATA} are the most"
        )
    if size.n_targets > MOST_TOKENS:
        raise CantTrain(
            f"there are {size.n_targets} targets, and {MOST_TOKENS} are the most; ask for several smaller ops"
        )


def stands_for(
    request: messages.ForwardBackwardRequest, stable_reinforce: StableReinforce
) -> StableReinforce | None:
    """The loss that is computed in the place of the one that is asked for; None: that one, or none at all."""
    is_other = request.loss_fn == STABLE_REINFORCE and stable_reinforce != REFUSED
    return stable_reinforce if is_other else None


def _loss_name(request: messages.ForwardBackwardRequest, stable_reinforce: StableReinforce) -> str:
    """Settings of a loss whose formula isn't known can't be translated. Raises `CantTrain`."""
    other = stands_for(request, stable_reinforce)
    if other is not None and (given := _settings(request)):
        raise CantTrain(
            f"{other} is computed here for {STABLE_REINFORCE}, whose settings it doesn't have: leave"
            f" {', '.join(sorted(given))} out, or pass loss_fn={other} with its own settings"
        )
    return other or request.loss_fn


def _loss(request: messages.ForwardBackwardRequest, name: str) -> Loss:
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
    if name == STABLE_REINFORCE:
        return (
            "the formula of stable_reinforce is not public, so it is not offered here; pass"
            " loss_fn=ppo, cispo or importance_sampling instead (in the cookbook: loss_fn=ppo); the gateway's"
            " operator may let one of them stand for it (--tinker-stable-reinforce)"
        )
    if name == CUSTOM:
        return (
            "a loss of your own (custom) is computed on the client's side here: call forward_backward_custom with it, which"
            " also takes what create_custom_loss makes of one"
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


def _datum(index: int, datum: messages.Datum, loss: Loss) -> list[Datum]:
    try:
        return _translated(datum, loss)
    except ValidationError as error:
        first = error.errors()[0]
        raise CantTrain(f"data.{index}.{first['loc'][0]}: {first['msg']}") from error
    except CantTrain as error:
        raise CantTrain(f"data.{index}: {error}") from error


def _translated(datum: messages.Datum, loss: Loss) -> list[Datum]:
    inputs_T = _input_ids(datum)
    targets_TK = _table(datum, "target_tokens", inputs_T.size)
    if targets_TK is None:
        raise CantTrain("target_tokens are missing")
    if not _are_ids(targets_TK):
        raise CantTrain("target_tokens has what can't be a token's id")
    ids_S = np.append(inputs_T, targets_TK[-1:, 0]).astype(np.int32)
    if loss.kind == "cross_entropy":
        return _supervised(datum, ids_S, targets_TK)
    if targets_TK.shape[1] > 1:
        raise CantTrain(f"{loss.kind} takes one target for each token; cross_entropy takes several")
    advantages_TK = _table(datum, "advantages", inputs_T.size)
    logprobs_TK = _table(datum, "logprobs", inputs_T.size)
    if advantages_TK is None or logprobs_TK is None:
        raise CantTrain(f"{loss.kind} needs advantages and logprobs")
    made = Datum(
        ids=ids_S,
        targets=_targets_S(ids_S, targets_TK[:, 0]),
        advantages=_behind(_only(advantages_TK, "advantages")),
        logprobs=_behind(np.minimum(_only(logprobs_TK, "logprobs"), 0.0)),
    )
    return [made]


def _supervised(
    datum: messages.Datum, ids_S: NDArray[np.int32], targets_TK: "NDArray[np.generic]"
) -> list[Datum]:
    """A sequence for each column of targets; all of them have the same tokens."""
    weights_TK = _table(datum, "weights", len(targets_TK))
    if weights_TK is None:
        weights_TK = np.zeros_like(targets_TK, np.float32)
    if weights_TK.shape != targets_TK.shape:
        raise CantTrain(
            f"each token has {targets_TK.shape[1]} target_tokens and {weights_TK.shape[1]} weights"
        )
    return [
        Datum(
            ids=ids_S,
            targets=_targets_S(ids_S, targets_T),
            weights=_behind(weights_T),
            mask=_everything(ids_S),
        )
        for targets_T, weights_T in zip(targets_TK.T, weights_TK.T, strict=True)
    ]


def _targets_S(
    ids_S: NDArray[np.int32], targets_T: "NDArray[np.generic]"
) -> NDArray[np.int32] | None:
    """None where they are the tokens that follow."""
    if np.array_equal(ids_S[1:], targets_T):
        return None
    return np.append(ids_S[:1], targets_T).astype(np.int32)


def _table(datum: messages.Datum, name: str, n_tokens: int) -> "NDArray[np.generic] | None":
    """None where there is no such tensor."""
    if name not in datum.loss_fn_inputs:
        return None
    return table(datum.loss_fn_inputs[name], name, n_tokens)


def _only(values_TK: "NDArray[np.generic]", name: str) -> "NDArray[np.generic]":
    if values_TK.shape[1] > 1:
        raise CantTrain(f"{name} has {values_TK.shape[1]} values for each token; one is offered")
    return values_TK[:, 0]


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
            raise CantTrain(
                f"model_input has a chunk of the type {kind}; trainers learn from tokens alone"
            )
        parts.append(decoded(chunk.encoded_text.tokens, "<i4", "model_input").astype(np.int32))
    if not sum(part.size for part in parts):
        raise CantTrain("model_input has no tokens")
    return np.concatenate(parts)
