"""What can't be trained on, though it ended well: images, and tokens of another vocabulary.

Trainers compute logprobs of text alone, and training on the tokens of an image without the image would be
training on wrong logprobs. So such an episode counts as failed, and its run ends with the reason.
Evaluation has no use for logprobs. Ids of another vocabulary stand for other texts, so none is trained
on: its run ends.
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


def other_tokenizer(item: EpisodeEnded, ours: str) -> str | None:
    """Why the episode's tokens are none of the model whose vocabulary has this digest; None if they may be."""
    theirs = item.transcript.tokenizer
    if not (ours and theirs) or ours == theirs:
        return None
    return (
        f"the tokens of {item.envelope.episode} were made by another tokenizer (digest"
        f" {theirs[:12]}) than that of the model which is trained (digest {ours[:12]})"
    )
