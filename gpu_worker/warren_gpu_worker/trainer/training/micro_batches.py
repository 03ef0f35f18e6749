# pyright: reportUnknownMemberType=false
"""A batch of tokens as micro-batches: right-padded rows, and for networks that take them packed ones.

Legend: N tokens of all sequences laid end to end, B sequences (rows), F families of those that share
their inputs, T input positions of the widest row. Input position t holds token t of its sequence and predicts token t+1.

Invariants:
- The micro-batches depend on the batch and the budget alone, so the same op gives the same bits.
- Padding stands to the right and attention is causal, so no token ever sees it.
- Nothing is computed that no one asked for: a row ends where its last wanted token is predicted,
  and a row without one is left out. Where a batch names its targets, sequences of the same tokens that
  follow each other have one row of inputs, unless rows are split: several targets for each token cost one pass.
- Ranks share the rows evenly and have equally many micro-batches, for a pass is something that all
  of them do; one that has run out of rows goes on with a single position that counts for nothing.
  Where rows themselves are split over ranks (`splitting`), all have the same micro-batches.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from warren_gpu_worker.trainer.training.packing import PackedRows, pack
from warren_gpu_worker.trainer.training.ranks import Ranks
from warren_gpu_worker.trainer.training.sequence_parallel import SequenceShards
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.token_batch import TokenBatch

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

_WORTH_IT = 0.95
"""Share of real positions from which on padding costs less than leaving it out."""
_LARGEST_PADDING = 8
"""Padded positions of packed rows for each one that is computed: what a loss is made of is padded."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Some rows of a batch.

    `_BT` arrays refer to the token that position t predicts. `_M` and `_K` arrays are places among
    the B x T positions laid end to end, and `_N` places among the tokens of the whole batch.
    """

    input_ids_BT: Tensor
    """Fewer rows than the others have, where some share theirs."""
    target_ids_BT: Tensor
    sampler_logprobs_BT: Tensor
    weights_BT: Tensor
    mask_BT: Tensor
    """bool: the predicted token counts in the loss."""
    trained_M: Tensor
    """Where the mask is set."""
    others_K: Tensor
    """Where a logprob is wanted all the same."""
    kept_MK: Tensor | None
    """What each trained token was sampled from, -1 behind smaller sets; None: the whole vocabulary."""
    places_BT: IntArray
    """Where the predicted token stands among the N tokens."""
    packed: PackedRows | None = None
    """What the network is called with instead of padded rows."""
    inputs_B: Tensor | None = None
    """Which row of the inputs each row has; None: its own."""

    def input_places(self, places_M: Tensor) -> Tensor:
        """Where these places are among those of the inputs."""
        if self.inputs_B is None:
            return places_M
        n_positions = self.mask_BT.shape[1]
        return self.inputs_B[places_M // n_positions] * n_positions + places_M % n_positions

    def computed_at(self, places_M: Tensor) -> Tensor:
        """Where the network computes these places."""
        places_M = self.input_places(places_M)
        return places_M if self.packed is None else self.packed.places[places_M]

    def wanted_states(self) -> Tensor:
        """Where the network computes what anybody wants."""
        wanted_M = torch.cat([self.trained_M, self.others_K])
        return self.computed_at(wanted_M) if self.inputs_B is None else self.states_at(wanted_M)[0]

    def states_at(self, places_M: Tensor) -> tuple[Tensor, Tensor]:
        """Where the network computes these places, each once, and which of them each place has."""
        unique = cast("Callable[..., tuple[Tensor, Tensor]]", torch.unique)
        return unique(self.computed_at(places_M), return_inverse=True)

    def own(self, places_M: Tensor) -> tuple[Tensor, slice]:
        """Where this rank computes these rising places, and which of them it does: all, where rows are not split."""
        computed_M = self.computed_at(places_M)
        if self.split is None:
            return computed_M, slice(None)
        own = self.split.own_among(computed_M)
        return computed_M[own] - self.split.first, own

    @property
    def split(self) -> SequenceShards | None:
        """Where each rank computes a part of the rows."""
        return None if self.packed is None else self.packed.split


def trained_mask(batch: TokenBatch) -> BoolArray:
    """The mask without first tokens, which nothing predicts; bool [N]."""
    mask_N = batch.mask_N.astype(np.bool_)
    mask_N[_starts(batch)] = False
    return mask_N


def micro_batches(
    batch: TokenBatch,
    *,
    max_tokens: int,
    all_logprobs: bool,
    device: torch.device,
    rank: int = 0,
    n_ranks: int = 1,
    packs: bool = False,
    splits: Ranks | None = None,
) -> Iterator[MicroBatch]:
    """Rows of like length together, at most `max_tokens` positions each (one row may be longer).

    `packs`: without padding, which then doesn't count as positions; `splits`: packed in any case, for these ranks.
    """
    mask_N = trained_mask(batch)
    starts_B = _starts(batch)
    wanted_N = ~_is_first(batch) if all_logprobs else mask_N
    n_inputs_B = _last_wanted(wanted_N, starts_B, batch.lengths_B.astype(np.int64))
    firsts_F = _firsts(batch, starts_B) if splits is None else np.arange(starts_B.size)
    n_inputs_F = np.maximum.reduceat(n_inputs_B, firsts_F)
    fits = partial(_fits_packed if packs else _fits_padded, max_tokens)
    shares = [list(_groups(n_inputs_F, fits, r, n_ranks)) for r in range(n_ranks)]
    sizes_F = np.diff(firsts_F, append=starts_B.size)
    for families in shares[rank]:
        sizes, n_inputs = sizes_F[families], n_inputs_F[families]
        rows_B = _expanded(firsts_F[families], sizes)
        padded = _pad(batch, mask_N, wanted_N, starts_B[rows_B], np.repeat(n_inputs, sizes), device)
        shared = _shared(padded, sizes)
        yield _packed(shared, n_inputs, splits) if packs else shared
    nothing_N = np.zeros_like(mask_N)
    for _ in range(max(map(len, shares)) - len(shares[rank])):
        yield _pad(batch, nothing_N, nothing_N, starts_B[:1], np.ones(1, np.int64), device)


def _firsts(batch: TokenBatch, starts_B: IntArray) -> IntArray:
    """Sequences that are not the same as the one before; all of them where targets are the tokens themselves."""
    if batch.targets_N is None:
        return np.arange(starts_B.size)
    sequences = np.split(batch.ids_N, starts_B[1:])
    is_first = [True, *(not np.array_equal(*two) for two in pairwise(sequences))]
    return np.flatnonzero(is_first)


def _expanded(firsts_F: IntArray, sizes_F: IntArray) -> IntArray:
    """All sequences of these families, each family's one after another."""
    within: IntArray = np.arange(int(sizes_F.sum()), dtype=np.int64)
    within -= np.repeat(np.cumsum(sizes_F) - sizes_F, sizes_F)
    return np.repeat(firsts_F, sizes_F) + within


def _shared(rows: MicroBatch, sizes: IntArray) -> MicroBatch:
    """With one row of inputs for each family."""
    if (sizes == 1).all():
        return rows
    inputs_B = torch.from_numpy(np.repeat(np.arange(sizes.size), sizes))
    firsts = torch.from_numpy(np.cumsum(sizes) - sizes)
    device = rows.input_ids_BT.device
    input_ids = rows.input_ids_BT.index_select(0, firsts.to(device))
    return replace(rows, input_ids_BT=input_ids, inputs_B=inputs_B.to(device))


def _packed(rows: MicroBatch, n_inputs_B: IntArray, splits: Ranks | None) -> MicroBatch:
    """Rows of nearly one length stay padded: there attention is faster than row by row."""
    if splits is None and n_inputs_B.sum() >= _WORTH_IT * rows.input_ids_BT.numel():
        return rows
    packed = pack(rows.input_ids_BT, tuple(n_inputs_B.tolist()))
    if splits is not None:
        packed.split = SequenceShards(splits, int(n_inputs_B.sum()))
    return replace(rows, packed=packed)


def _fits_padded(max_tokens: int, n_inputs_B: IntArray) -> bool:
    return n_inputs_B.size * int(n_inputs_B[0]) <= max_tokens


def _fits_packed(max_tokens: int, n_inputs_B: IntArray) -> bool:
    is_dense = _fits_padded(_LARGEST_PADDING * max_tokens, n_inputs_B)
    return is_dense and int(n_inputs_B.sum()) <= max_tokens


def _starts(batch: TokenBatch) -> IntArray:
    lengths_B = batch.lengths_B.astype(np.int64)
    return np.cumsum(lengths_B) - lengths_B


def _is_first(batch: TokenBatch) -> BoolArray:
    first_N = np.zeros(batch.ids_N.size, np.bool_)
    first_N[_starts(batch)] = True
    return first_N


def _last_wanted(wanted_N: BoolArray, starts_B: IntArray, lengths_B: IntArray) -> IntArray:
    """Offset of the last wanted token in its sequence, which is the number of inputs; 0 if none."""
    offsets_N = np.arange(wanted_N.size) - np.repeat(starts_B, lengths_B)
    return np.maximum.reduceat(np.where(wanted_N, offsets_N, 0), starts_B)


def _groups(
    n_inputs_B: IntArray, fits: Callable[[IntArray], bool], rank: int, n_ranks: int
) -> Iterator[IntArray]:
    """Longest rows first: the first of a group is its width, and memory peaks at once or never."""
    order = np.argsort(-n_inputs_B, kind="stable")
    order = order[: np.count_nonzero(n_inputs_B)][rank::n_ranks]
    begin = 0
    for end in range(1, len(order) + 1):
        if end - begin > 1 and not fits(n_inputs_B[order[begin:end]]):
            yield order[begin : end - 1]
            begin = end - 1
    if begin < len(order):
        yield order[begin:]


def _pad(
    batch: TokenBatch,
    mask_N: BoolArray,
    wanted_N: BoolArray,
    starts_B: IntArray,
    n_inputs_B: IntArray,
    device: torch.device,
) -> MicroBatch:
    def on_device(array: NDArray[np.generic]) -> Tensor:
        return torch.from_numpy(array).to(device)

    offsets_T: IntArray = np.arange(n_inputs_B[0], dtype=np.int64)
    real_BT = offsets_T[None, :] < n_inputs_B[:, None]
    inputs_BT = np.where(real_BT, starts_B[:, None] + offsets_T[None, :], 0)
    places_BT = np.where(real_BT, inputs_BT + 1, 0)
    mask_BT = mask_N[places_BT] & real_BT
    others_BT = wanted_N[places_BT] & real_BT & ~mask_BT
    kept_MK = None
    if batch.sampling_mask is not None:
        kept_MK = on_device(_sets(batch.sampling_mask, places_BT[mask_BT]))

    return MicroBatch(
        input_ids_BT=on_device(np.where(real_BT, batch.ids_N[inputs_BT], 0).astype(np.int64)),
        target_ids_BT=on_device(batch.trained_N[places_BT].astype(np.int64)),
        sampler_logprobs_BT=on_device(batch.logprobs_N[places_BT]),
        weights_BT=on_device(batch.weights_N[places_BT]),
        mask_BT=on_device(mask_BT),
        trained_M=on_device(np.flatnonzero(mask_BT)),
        others_K=on_device(np.flatnonzero(others_BT)),
        kept_MK=kept_MK,
        places_BT=places_BT,
    )


def _sets(mask: SamplingMask, tokens_M: IntArray) -> IntArray:
    """The sets of these tokens [M, K], -1 behind smaller ones."""
    sizes_M = mask.sizes_N[tokens_M]
    ranks_K: IntArray = np.arange(int(sizes_M.max(initial=1)), dtype=np.int64)
    places_MK = mask.starts_N[tokens_M][:, None] + ranks_K
    is_there_MK = ranks_K < sizes_M[:, None]
    return np.where(is_there_MK, mask.ids_S[np.where(is_there_MK, places_MK, 0)], -1)
