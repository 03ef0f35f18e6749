"""The tokens of an episode's actions, for environments that see them."""

from collections.abc import Iterator

import numpy as np

from warren.environment import Sampled
from warren_schemas.transcript import Tokens, Transcript


def sampled_of(transcript: Transcript, *, is_cut: bool) -> list[Sampled]:
    """Of each action, in their order; `is_cut` says whether the last one was, which has no answer yet.

    Where turns can't be told apart in the tokens, an action has none.
    """
    cuts = [*(turn.is_cut for turn in transcript.turns), is_cut]
    found: dict[int, Sampled] = {}
    for branch in transcript.branches:
        turns = transcript.turns_of(branch.number)
        stretches = list(_stretches(branch.tokens))
        is_clear = len(stretches) == len(turns)
        for nth, turn in enumerate(turns):
            found[turn] = (
                _sampled(branch.tokens, stretches[nth], is_cut=cuts[turn])
                if is_clear
                else Sampled(is_cut=cuts[turn])
            )
    return [found[turn] for turn in sorted(found)]


def _stretches(tokens: Tokens) -> Iterator[slice]:
    """Where the policy spoke."""
    edges = np.flatnonzero(np.diff(tokens.mask_T, prepend=0, append=0)).tolist()
    return (slice(begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=True))


def _sampled(tokens: Tokens, place: slice, *, is_cut: bool) -> Sampled:
    return Sampled(
        is_cut=is_cut,
        prompt_ids=tokens.ids_T[: place.start].tolist(),
        ids=tokens.ids_T[place].tolist(),
        logprobs=tokens.logprobs_T[place].tolist(),
        versions=tokens.versions_T[place].tolist(),
    )
