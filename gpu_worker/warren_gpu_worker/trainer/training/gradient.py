# pyright: reportUnknownMemberType=false
"""forward and forward_backward: the loss of a batch, its gradient, and what there is to report."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from warren_gpu_worker.losses import Objective, TokenTensors, compute_objective
from warren_gpu_worker.trainer.errors import OpError
from warren_gpu_worker.trainer.training.critic import judge, values_at
from warren_gpu_worker.trainer.training.logprobs import Head, TokenLogprobs, token_logprobs
from warren_gpu_worker.trainer.training.metrics import merge, merge_ranks, report
from warren_gpu_worker.trainer.training.micro_batches import MicroBatch, micro_batches, trained_mask
from warren_gpu_worker.trainer.training.reference import check_reference, reference_weights
from warren_gpu_worker.trainer.training.sampled_from import SampledFrom, Seen
from warren_gpu_worker.trainer.training.trainable_model import Network, TrainableModel
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import Forward, ForwardBackward, OpDone

LossOp = Forward | ForwardBackward


@dataclass(slots=True)
class Answer:
    """What the micro-batches of one op add up to."""

    parts: list[dict[str, Tensor]]
    logprobs_N: NDArray[np.float32] | None

    @classmethod
    def to(cls, op: LossOp) -> "Answer":
        """Still empty."""
        n_tokens = op.batch.ids_N.size
        return cls([], np.zeros(n_tokens, np.float32) if op.return_logprobs else None)

    def finish(self, model: TrainableModel) -> OpDone:
        """What the op answers. Raises `OpError` when the result is not finite.

        Where sequences are split over ranks, each has all of it, and that of one counts.
        """
        network = model.network
        if network.splits and not network.ranks.is_first:
            self.parts, self.logprobs_N = [], None
        ranks = network.ranks.gather((merge(self.parts), self.logprobs_N))
        metrics = merge_ranks([merged for merged, _ in ranks])
        _check_finite(metrics)
        noted = [logprobs_N for _, logprobs_N in ranks if logprobs_N is not None]
        logprobs_N = np.sum(noted, axis=0) if noted else None  # each has 0 where others have rows
        return OpDone(version=model.version, metrics=report(metrics), logprobs_N=logprobs_N)


def apply_loss(
    model: TrainableModel, op: LossOp, *, max_tokens: int, progress: Callable[[], None]
) -> OpDone:
    """Compute the op's loss; a `ForwardBackward` adds its gradient to the model's.

    `progress` is called before each micro-batch of at most `max_tokens` positions.

    Raises `OpError` before anything is computed, or when the result is not finite; then, and when
    torch raises in the middle, the gradient of the window is spoilt and the caller must drop it.
    """
    check_op(model, op)
    answer = Answer.to(op)
    for rows in micro_batches_of(model, op, max_tokens, packs=model.network.packs):
        progress()
        with torch.set_grad_enabled(isinstance(op, ForwardBackward)):
            reference_M = reference_logprobs(model, op, rows)
            loss = add_rows(model, op, rows, _hidden(model.network, rows), reference_M, answer)
            if loss.requires_grad:
                loss.backward()
        model.network.end_pass()
    done = answer.finish(model)
    model.n_backward += isinstance(op, ForwardBackward)
    return done


def micro_batches_of(
    model: TrainableModel, op: LossOp, max_tokens: int, *, packs: bool
) -> Iterator[MicroBatch]:
    """The rows of an op, at most `max_tokens` positions at a time, on each rank."""
    network, ranks = model.network, model.network.ranks
    return micro_batches(
        op.batch,
        max_tokens=max_tokens * ranks.size if network.splits else max_tokens,
        all_logprobs=op.return_logprobs,
        device=network.device,
        rank=0 if network.splits else ranks.rank,
        n_ranks=1 if network.splits else ranks.size,
        packs=packs,
        splits=ranks if network.splits else None,
    )


def check_op(model: TrainableModel, op: LossOp) -> None:
    """Raise `OpError` where the op doesn't fit the model."""
    _check_batch(model.network, op.batch)
    if op.kl is not None:
        check_reference(model)
    if op.critic is not None and model.network.critic is None:
        raise OpError("the op asks for a critic, and the model was made without one")


def _check_batch(network: Network, batch: TokenBatch) -> None:
    longest = int(batch.lengths_B.max())
    largest = int(max(batch.ids_N.max(), batch.trained_N.max()))
    if batch.sampling_mask is not None:
        largest = max(largest, int(batch.sampling_mask.ids_S.max(initial=0)))
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
    if network.image_token is not None and _shows(batch, network.image_token):
        raise OpError(
            "the batch has image tokens that no policy sampled, and logprobs are computed of text"
            " alone; leave out what shows images"
        )
    if not trained_mask(batch).any():
        raise OpError(
            "no token is under the mask, so there is nothing to train on"
            " (the first token of a sequence never counts)"
        )


def _shows(batch: TokenBatch, image_token: int) -> bool:
    return bool(((batch.ids_N == image_token) & (batch.mask_N == 0)).any())


def _check_finite(merged: dict[str, float]) -> None:
    bad = sorted(name for name, value in merged.items() if not math.isfinite(value))
    if bad:
        raise OpError(
            f"{', '.join(bad)} came out infinite or not a number; do the sampler's logprobs belong"
            " to these tokens and to a recent policy version?"
        )


def add_rows(
    model: TrainableModel,
    op: LossOp,
    rows: MicroBatch,
    hidden_BTH: Tensor,
    reference_M: Tensor | None,
    answer: Answer,
) -> Tensor:
    """Add what these rows contribute to the answer; their loss.

    `reference_M` is what `reference_logprobs` found for the rows; packed rows have their hidden states
    in one row.
    """
    network = model.network
    trained = _logprobs_at(network, op, rows, hidden_BTH, rows.trained_M)
    values_M = None
    if op.critic is not None and network.critic is not None:
        values_M = _values(network.critic, rows, hidden_BTH)
    loss = trained.logprobs_M.sum()  # of nothing; its gradient is zero, and all ranks have one
    if rows.trained_M.numel() > 0:
        loss, part = _take_loss(op, rows, trained, reference_M, values_M)
        answer.parts.append(part)
    elif values_M is not None:
        loss = loss + values_M.sum()
    if answer.logprobs_N is not None:
        with torch.no_grad():
            others = _logprobs_at(network, op, rows, hidden_BTH, rows.others_K)
        _note(answer.logprobs_N, rows, rows.trained_M, trained)
        _note(answer.logprobs_N, rows, rows.others_K, others)
    return loss


def _hidden(network: Network, rows: MicroBatch) -> Tensor:
    with _autocast(network):
        if rows.packed is not None:
            return network.hidden_1PH(rows.packed, rows.wanted_states())
        return network.hidden_BTH(rows.input_ids_BT, rows.wanted_states())


def reference_logprobs(model: TrainableModel, op: LossOp, rows: MicroBatch) -> Tensor | None:
    """Of the trained tokens, where the op has a penalty; no graph of the model may be alive."""
    if op.kl is None:
        return None
    with reference_weights(model):
        hidden_BTH = _hidden(model.network, rows)
        found = _logprobs_at(model.network, op, rows, hidden_BTH, rows.trained_M)
        model.network.end_pass()
        return found.untruncated_M


def _logprobs_at(
    network: Network, op: LossOp, rows: MicroBatch, hidden_BTH: Tensor, places_M: Tensor
) -> TokenLogprobs:
    """Only these positions reach the head: logits of prompts never exist."""
    states, ids_M = hidden_BTH.flatten(0, 1), rows.target_ids_BT.flatten().index_select(0, places_M)
    head = Head(
        network.head,
        network.vocabulary,
        network.max_logits,
        has_entropy_gradient=op.entropy_coefficient > 0,
        has_untruncated_gradient=op.kl is not None and op.kl.place == "loss",
    )
    sampled_from = _sampled_from(network, op, rows, places_M)
    if rows.inputs_B is not None and sampled_from.is_of_all:
        computed_U, owners_M = rows.states_at(places_M)
        with _autocast(network):
            return token_logprobs(head, states[computed_U], ids_M, sampled_from, owners_M)
    computed_M, own = rows.own(places_M)
    hidden_MH = states.index_select(0, computed_M)
    with _autocast(network):
        found = token_logprobs(head, hidden_MH, ids_M[own], sampled_from.part(own))
    if rows.split is None:
        return found
    return found.each(partial(rows.split.everyones, among=own, n=places_M.numel()))


def _values(critic: nn.Module, rows: MicroBatch, hidden_BTH: Tensor) -> Tensor:
    """Of the trained tokens."""
    computed_M, own = rows.own(rows.trained_M)
    values_M = values_at(critic, hidden_BTH, computed_M)
    if rows.split is None:
        return values_M
    return rows.split.everyones(values_M, own, rows.trained_M.numel())


def _sampled_from(network: Network, op: LossOp, rows: MicroBatch, places_M: Tensor) -> SampledFrom:
    """Tokens that nobody trains on are told of with the whole vocabulary."""
    seen = None
    if op.repetition_penalty != 1.0:
        seen = Seen.before(rows, places_M, network.vocabulary)
    kept_MK = rows.kept_MK if places_M is rows.trained_M else None
    return SampledFrom(op.temperature, op.repetition_penalty, seen, kept_MK)


def _take_loss(
    op: LossOp,
    rows: MicroBatch,
    trained: TokenLogprobs,
    reference_M: Tensor | None,
    values_M: Tensor | None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss, and what there is to report."""
    if op.critic is None or values_M is None:
        return _policy_loss(op, rows, trained, reference_M, rows.weights_BT)
    judged = judge(values_M, rows, op.critic)
    loss, part = _policy_loss(op, rows, trained, reference_M, judged.advantages_BT)
    loss = loss + judged.loss
    return loss, {**part, **judged.diagnostics, "loss:sum": loss.detach()}


def _policy_loss(
    op: LossOp,
    rows: MicroBatch,
    trained: TokenLogprobs,
    reference_M: Tensor | None,
    advantages_BT: Tensor,
) -> tuple[Tensor, dict[str, Tensor]]:
    logprobs_BT = _spread(rows, trained.logprobs_M)
    log_ratio_M = None if reference_M is None else trained.untruncated_M - reference_M
    value = compute_objective(
        TokenTensors(logprobs_BT, rows.sampler_logprobs_BT, advantages_BT, rows.mask_BT),
        Objective(op.loss, op.kl, op.entropy_coefficient, op.tis_cap),
        entropy=trained.sampled_entropy_M.sum(),
        reference_log_ratio_BT=None if log_ratio_M is None else _spread(rows, log_ratio_M),
    )
    return value.loss, {
        "loss:sum": value.loss.detach(),
        "tokens:sum": rows.mask_BT.sum(),
        "entropy:sum": trained.entropy_M.sum(),
        **value.diagnostics,
    }


def _spread(rows: MicroBatch, values_M: Tensor) -> Tensor:
    """Values of the trained tokens at their places, 0 elsewhere."""
    zeros = values_M.new_zeros(rows.mask_BT.numel())
    return zeros.scatter(0, rows.trained_M, values_M).view(rows.mask_BT.shape)


def _note(
    logprobs_N: NDArray[np.float32], rows: MicroBatch, places_M: Tensor, tokens: TokenLogprobs
) -> None:
    tokens_M = rows.places_BT.ravel()[places_M.cpu().numpy()]
    logprobs_N[tokens_M] = tokens.logprobs_M.detach().cpu().numpy()


def _autocast(network: Network) -> contextlib.AbstractContextManager[object]:
    if network.autocast_dtype is None:
        return contextlib.nullcontext()
    return torch.autocast(network.device.type, network.autocast_dtype)
