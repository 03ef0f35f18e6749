# pyright: reportUnknownMemberType=false
"""A decoder's last feed-forward, for those positions alone whose hidden states somebody asked for.

After the last attention no position looks at another one, so what prompts come to there is for
nobody. Their part of that feed-forward is left out: most of a layer, for most of the tokens of an
agent's transcript.

Legend: B rows, T positions, M of the B x T positions, H hidden size.

Invariants: hidden states of positions that are asked for are what they would be; gradients too. The
others are of no use. Decoders that don't fit the picture are called as they are.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from warren_gpu_worker.trainer.training.gradient_checkpointing import layers_of

_WORTH_IT = 0.8
"""Share of positions above which choosing them costs more than it saves."""

FeedForward = Callable[[Tensor], object]


class LastLayer:
    """What the decoder is asked for in the pass that is under way; None is everything."""

    def __init__(self) -> None:
        self.places_M: Tensor | None = None
        self.is_possible = True

    def ask(self, places_M: Tensor | None, n_positions: int) -> None:
        """Holds until the next pass, for activations may be computed again."""
        is_worth_it = places_M is not None and places_M.numel() < _WORTH_IT * n_positions
        self.places_M = places_M if is_worth_it else None

    def call(self, feed_forward: FeedForward, x_BTH: Tensor) -> object:
        """The feed-forward at the places asked for, 0 elsewhere."""
        if self.places_M is None or not self.is_possible:
            return feed_forward(x_BTH)
        y_1MH = feed_forward(x_BTH.flatten(0, 1).index_select(0, self.places_M)[None])
        if not isinstance(y_1MH, Tensor):
            self.is_possible = False
            return feed_forward(x_BTH)
        nothing = y_1MH.new_zeros(x_BTH.shape).flatten(0, 1)
        return nothing.index_copy(0, self.places_M, y_1MH[0]).view(x_BTH.shape)


@torch.no_grad()
def narrow(decoder: nn.Module, hidden_BTH: Callable[[Tensor], Tensor], ids_BT: Tensor) -> LastLayer:
    """Change the decoder, and try it with a few tokens of one row."""
    narrowing = LastLayer()
    layers = layers_of(decoder)
    feed_forward = getattr(layers[-1], "mlp", None) if layers else None
    if not isinstance(feed_forward, nn.Module):
        return narrowing
    expected_H = hidden_BTH(ids_BT)[0, -1]
    feed_forward.forward = partial(narrowing.call, feed_forward.forward)
    narrowing.places_M = torch.tensor([ids_BT.numel() - 1], device=ids_BT.device)
    found_H = hidden_BTH(ids_BT)[0, -1]
    tolerance = 0.05 * float(expected_H.abs().max())  # the dtype may be a coarse one
    narrowing.is_possible &= torch.allclose(found_H, expected_H, rtol=0.0, atol=tolerance)
    narrowing.places_M = None
    return narrowing
