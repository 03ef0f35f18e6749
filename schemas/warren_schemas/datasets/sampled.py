"""Recorded episodes as rows that are fine-tuned on: what a policy sampled in them is learned, token by token.

Invariant: the ids are those that were recorded, and learned are those that were sampled. Nothing is tokenized anew; what is
too long is cut at its end.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from warren_schemas.datasets.exported import NotExported, replayable
from warren_schemas.episode import Completed, Failed, FailureKind, StopReason
from warren_schemas.transcript import NOT_SAMPLED, Branch, Tokens, Transcript


def is_recorded(row: Mapping[str, object]) -> bool:
    """Whether this is a row of an export, and no conversation."""
    return "spec" in row and "ids_T" in row


class Sampled(NamedTuple):
    transcript: Transcript
    outcome: Completed | Failed
    size_bytes: int
    """What it took to read it, roughly."""


def sampled(row: Mapping[str, object], *, version: int, max_tokens: int | None) -> Sampled:
    """What is learned of it, or why nothing is.

    As of demonstrations, learned tokens count as sampled by this policy version, with logprob 0, from all of the vocabulary.
    """
    try:
        item, _, fate, _, size_bytes = replayable(row)
    except NotExported as error:
        return _nothing(f"it is no recorded episode any more: {error}", 0)
    if isinstance(item.outcome, Failed):
        return _nothing(f"the episode failed: {item.outcome.reason}", size_bytes)
    if fate is None:
        return _nothing("the episode was superseded, or its run never decided on it", size_bytes)
    found = _learned(item.transcript, version, max_tokens)
    pairs = zip(found.sequences, item.transcript.sequences, strict=True)
    is_cut = any(len(kept) < len(whole) for kept, whole in pairs)
    stop = StopReason.MAX_TOTAL_TOKENS if is_cut else StopReason.DONE
    return Sampled(found, Completed(reward=item.outcome.reward, stop=stop), size_bytes)


def _learned(transcript: Transcript, version: int, max_tokens: int | None) -> Transcript:
    others = tuple(_of_branch(branch, version, max_tokens) for branch in transcript.set_aside)
    tokens = _tokens(transcript.tokens, version, max_tokens)
    return transcript.model_copy(update={"tokens": tokens, "set_aside": others})


def _of_branch(branch: Branch, version: int, max_tokens: int | None) -> Branch:
    return branch.model_copy(update={"tokens": _tokens(branch.tokens, version, max_tokens)})


def _tokens(tokens: Tokens, version: int, max_tokens: int | None) -> Tokens:
    ids_T, mask_T = tokens.ids_T[:max_tokens], tokens.mask_T[:max_tokens]
    return Tokens.model_construct(
        ids_T=ids_T,
        mask_T=mask_T,
        logprobs_T=np.zeros(ids_T.size, np.float32),
        versions_T=np.where(mask_T == 1, version, NOT_SAMPLED).astype(np.int32),
        sampling_mask=None,
    )


def _nothing(reason: str, size_bytes: int) -> Sampled:
    failed = Failed(kind=FailureKind.INVALID_REQUEST, reason=reason, retryable=False)
    return Sampled(Transcript(), failed, size_bytes)
