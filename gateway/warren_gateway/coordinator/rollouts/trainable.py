"""What can't be trained on, though it ended well: its logprobs would not be the sampler's.

Training on them all the same would be training on ratios that say nothing. So such an episode counts as
failed, and its run ends with the reason. Evaluation has no use for logprobs.

- Trainers compute logprobs of text alone; the tokens of an image mean nothing without it.
- What was sampled from a part of the vocabulary has another distribution than the model's. Its
  episode must tell what was left to sample from.
- Greedy sampling has no distribution at all. No run trains on it, but a file may hold such episodes.
- Ids of another vocabulary stand for other texts, so none is trained on: its run ends.
"""

from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Failed, FailureKind

_HAS_IMAGES = (
    "the environment shows images, and trainers compute logprobs of text alone; policies that see"
    " can be evaluated and asked directly"
)
_HAS_NO_MASK = (
    "the episode was sampled with top_p, top_k or min_p and does not tell which tokens were left, so"
    " the trainer can't compute its logprobs; record it anew, with samplers of this version"
)
_IS_GREEDY = (
    "the episode was sampled at temperature 0, which leaves nothing to compare its logprobs with; fine-tune on"
    " it (sft), or record it above 0"
)


def as_trainable(item: EpisodeEnded) -> EpisodeEnded:
    """The episode, or a failed one where it was to be trained on and can't be."""
    if item.spec.purpose is EpisodePurpose.EVALUATE or not isinstance(item.outcome, Completed):
        return item
    branches = item.transcript.branches
    if any(message.images for branch in branches for message in branch.messages):
        return _failed(item, FailureKind.IMAGES_UNSUPPORTED, _HAS_IMAGES)
    if _is_trained(item) and item.spec.sampling.temperature == 0:
        return _failed(item, FailureKind.INVALID_REQUEST, _IS_GREEDY)
    if _lacks_mask(item):
        return _failed(item, FailureKind.INVALID_REQUEST, _HAS_NO_MASK)
    return item


def _is_trained(item: EpisodeEnded) -> bool:
    return item.spec.purpose is EpisodePurpose.TRAIN


def _lacks_mask(item: EpisodeEnded) -> bool:
    is_truncated = _is_trained(item) and item.spec.sampling.is_truncated
    sequences = item.transcript.sequences
    return is_truncated and not all(t.has_every_mask for t in sequences if t.n_sampled)


def _failed(item: EpisodeEnded, kind: FailureKind, reason: str) -> EpisodeEnded:
    failed = Failed(kind=kind, reason=reason, retryable=False)
    return item.model_copy(update={"outcome": failed})


def other_tokenizer(item: EpisodeEnded, ours: str) -> str | None:
    """Why the episode's tokens are none of the model whose vocabulary has this digest; None if they may be."""
    theirs = item.transcript.tokenizer
    if not (ours and theirs) or ours == theirs:
        return None
    return (
        f"the tokens of {item.envelope.episode} were made by another tokenizer (digest"
        f" {theirs[:12]}) than that of the model which is trained (digest {ours[:12]})"
    )
