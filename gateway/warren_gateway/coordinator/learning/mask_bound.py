"""Told once of a run: top-p or min-p leave more tokens than a sampling mask may have.

Training is exact all the same, for the sampler cuts to `MAX_KEPT` before it samples. But it samples
less freely than its settings say, and nobody should have to find that out.
"""

from collections.abc import Sequence

import numpy as np

from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.coordinator.state.groups import Group
from warren_schemas.events import WarningRaised
from warren_schemas.fields.limits import MAX_KEPT


def note_batch(state: CoordinatorState, groups: Sequence[Group]) -> None:
    """A batch is consumed; warn of the first in which the bound was reached."""
    if state.learning.batches.is_mask_bound_told:
        return
    share = _share_at_bound(groups)
    if share == 0.0:
        return
    state.learning.batches.is_mask_bound_told = True
    state.emit(
        WarningRaised(
            message=f"{share:.1%} of the tokens of this step were sampled from the {MAX_KEPT} most"
            " probable ones, fewer than top_p or min_p allow: in training more are not kept. Ratios"
            " stay exact, for the trainer computes the same distribution. A lower sampling.top_p, a"
            " higher sampling.min_p or a sampling.top_k leaves fewer tokens; without any of them all"
            " are sampled from"
        )
    )


def _share_at_bound(groups: Sequence[Group]) -> float:
    n_at_bound, n_sampled = 0, 0
    for item, _ in (pair for group in groups for pair in group.completed):
        n_sampled += item.transcript.n_sampled
        for mask in (tokens.sampling_mask for tokens in item.transcript.sequences):
            if mask is not None and item.spec.sampling.top_k == 0:
                n_at_bound += int(np.count_nonzero(mask.sizes_N == MAX_KEPT))
    return n_at_bound / max(1, n_sampled)
