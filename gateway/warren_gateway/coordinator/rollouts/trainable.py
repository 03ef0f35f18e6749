"""What can't be trained on, though it ended well: trainers compute logprobs of text alone.

Training on the tokens of an image without the image would be training on wrong logprobs. So such an
episode counts as failed, and its run ends with the reason. Evaluation has no use for logprobs.
"""

from warren_schemas.episode import Completed, EpisodeEnded, EpisodePurpose, Failed, FailureKind

_REASON = (
    "the environment shows images, and trainers compute logprobs of text alone; policies that see"
    " can be evaluated and asked directly"
)


def as_trainable(item: EpisodeEnded) -> EpisodeEnded:
    """The episode, or a failed one where it was to be trained on and has images."""
    if item.spec.purpose is EpisodePurpose.EVALUATE or not isinstance(item.outcome, Completed):
        return item
    if not any(message.images for message in item.transcript.messages):
        return item
    failed = Failed(kind=FailureKind.IMAGES_UNSUPPORTED, reason=_REASON, retryable=False)
    return item.model_copy(update={"outcome": failed})
