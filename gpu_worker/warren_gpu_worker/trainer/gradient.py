# pyright: reportUnknownMemberType=false
"""forward_backward: add the gradient of a batch, and report."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warren_gpu_worker.losses import TokenTensors, compute_loss
from warren_gpu_worker.trainer.batching import MicroBatch, micro_batches, trained_mask
from warren_gpu_worker.trainer.logprobs import TokenLogprobs, token_logprobs
from warren_gpu_worker.trainer.metrics import merge, report
from warren_gpu_worker.trainer.model import Network, TrainableModel
from warren_schemas.training import ForwardBackward, OpDone, TokenBatch


class OpError(ValueError):
    """The op can't be applied as it is; says what is wrong and what would help."""


@dataclass(slots=True)
class _Answer:
    """What the micro-batches of one op add up to."""

    parts: list[dict[str, Tensor]]
    logprobs_N: NDArray[np.float32] | None


def add_gradient(
    model: TrainableModel, op: ForwardBackward, *, max_tokens: int, progress: Callable[[], None]
) -> OpDone:
    """Add the gradient of the op's loss, summed over masked tokens, to the model's gradient.

    `progress` is called before each micro-batch of at most `max_tokens` positions.

    Raises `OpError` before anything is computed, or when the result is not finite; then, and when
    torch raises in the middle, the gradient of the window is spoilt and the caller must drop it.
    """
    _check(model.network, op.batch)
    n_tokens = op.batch.ids_N.size
    answer = _Answer([], np.zeros(n_tokens, np.float32) if op.return_logprobs else None)
    for micro_batch in micro_batches(
        op.batch,
        max_tokens=max_tokens,
        all_logprobs=op.return_logprobs,
        device=model.network.device,
    ):
        progress()
        _add_micro_batch(model.network, op, micro_batch, answer)
    metrics = merge(answer.parts)
    _check_finite(metrics)
    model.n_backward += 1
    return OpDone(version=model.version, metrics=report(metrics), logprobs_N=answer.logprobs_N)


def _check(network: Network, batch: TokenBatch) -> None:
    longest, largest = int(batch.lengths_B.max()), int(batch.ids_N.max())
    if largest >= network.vocabulary:
        raise OpError(
            f"token id {largest} is outside the model's vocabulary of {network.vocabulary};"
            " was the batch made with another model's tokenizer?"
        )
    if longest > network.max_tokens:
        raise OpError(
            f"a sequence of {longest} tokens is longer than the model's {network.max_tokens};"
            " lower sampling.max_tokens or the environment's max_turns"
        )
    if not trained_mask(batch).any():
        raise OpError(
            "no token is under the mask, so there is nothing to train on"
            " (the first token of a sequence never counts)"
        )


def _check_finite(merged: dict[str, float]) -> None:
    bad = sorted(name for name, value in merged.items() if not math.isfinite(value))
    if bad:
        raise OpError(
            f"{', '.join(bad)} came out infinite or not a number; do the sampler's logprobs belong"
            " to these tokens and to a recent policy version?"
        )


def _add_micro_batch(
    network: Network, op: ForwardBackward, rows: MicroBatch, answer: _Answer
) -> None:
    with _autocast(network):
        hidden_BTH = network.hidden_BTH(rows.input_ids_BT)
    trained = _logprobs_at(network, op, rows, hidden_BTH, rows.trained_M)
    if rows.trained_M.numel() > 0:
        answer.parts.append(_backward(op, rows, trained))
    if answer.logprobs_N is not None:
        with torch.no_grad():
            others = _logprobs_at(network, op, rows, hidden_BTH, rows.others_K)
        _note(answer.logprobs_N, rows, rows.trained_M, trained)
        _note(answer.logprobs_N, rows, rows.others_K, others)


def _logprobs_at(
    network: Network, op: ForwardBackward, rows: MicroBatch, hidden_BTH: Tensor, places_M: Tensor
) -> TokenLogprobs:
    """Only these positions reach the head: logits of prompts never exist."""
    hidden_MH = hidden_BTH.flatten(0, 1).index_select(0, places_M)
    ids_M = rows.target_ids_BT.flatten().index_select(0, places_M)
    with _autocast(network):
        return token_logprobs(network.head, network.vocabulary, hidden_MH, ids_M, op.temperature)


def _backward(op: ForwardBackward, rows: MicroBatch, trained: TokenLogprobs) -> dict[str, Tensor]:
    zeros = torch.zeros(rows.mask_BT.numel(), device=rows.mask_BT.device)
    logprobs_BT = zeros.scatter(0, rows.trained_M, trained.logprobs_M).view(rows.mask_BT.shape)
    tokens = TokenTensors(logprobs_BT, rows.sampler_logprobs_BT, rows.weights_BT, rows.mask_BT)
    value = compute_loss(tokens, op.loss)
    value.loss.backward()
    return {
        "loss:sum": value.loss.detach(),
        "tokens:sum": rows.mask_BT.sum(),
        "entropy:sum": trained.entropy_M.sum(),
        **value.diagnostics,
    }


def _note(
    logprobs_N: NDArray[np.float32], rows: MicroBatch, places_M: Tensor, tokens: TokenLogprobs
) -> None:
    tokens_M = rows.places_BT.ravel()[places_M.cpu().numpy()]
    logprobs_N[tokens_M] = tokens.logprobs_M.detach().cpu().numpy()


def _autocast(network: Network) -> contextlib.AbstractContextManager[object]:
    if network.autocast_dtype is None:
        return contextlib.nullcontext()
    return torch.autocast(network.device.type, network.autocast_dtype)
