"""What can't be trained on, by its purpose: images, and truncated sampling that does not tell its masks."""

import pytest
from tests.support.factories import (
    make_episode_ended,
    make_failed_episode,
    make_spec,
    make_transcript,
)

from warren_gateway.coordinator.rollouts.trainable import as_trainable
from warren_schemas.config import Sampling
from warren_schemas.episode import EpisodePurpose, Failed, FailureKind
from warren_schemas.images import Image
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import ChatMessage

SHOWN = (ChatMessage(role="user", content="?", images=(Image.of(b"\xff\xd8\xff rest"),)),)


@pytest.mark.parametrize("purpose", [EpisodePurpose.TRAIN, EpisodePurpose.DEMONSTRATE])
def test_what_shows_images_is_not_trained_on(purpose: EpisodePurpose) -> None:
    transcript = make_transcript().model_copy(update={"messages": SHOWN})
    item = make_episode_ended(spec=make_spec(purpose=purpose), transcript=transcript)
    outcome = as_trainable(item).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.retryable) == (FailureKind.IMAGES_UNSUPPORTED, False)
    assert "trainers compute logprobs of text alone" in outcome.reason


def test_everything_else_stays_as_it_is() -> None:
    transcript = make_transcript().model_copy(update={"messages": SHOWN})
    spec = make_spec(purpose=EpisodePurpose.EVALUATE)
    for item in (
        make_episode_ended(spec=spec, transcript=transcript),
        make_episode_ended(),
        make_failed_episode(),
    ):
        assert as_trainable(item) is item


CUT = Sampling(top_p=0.6)


def test_what_was_truncated_without_its_masks_is_not_trained_on() -> None:
    """A recording of a version that did not keep them."""
    outcome = as_trainable(make_episode_ended(spec=make_spec(sampling=CUT))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.retryable) == (FailureKind.INVALID_REQUEST, False)
    assert "does not tell which tokens were left" in outcome.reason


def test_what_was_sampled_greedily_is_demonstrated_or_not_trained_on() -> None:
    greedy = Sampling(temperature=0)
    outcome = as_trainable(make_episode_ended(spec=make_spec(sampling=greedy))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.kind, outcome.retryable) == (FailureKind.INVALID_REQUEST, False)
    assert "sampled at temperature 0" in outcome.reason
    spec = make_spec(sampling=greedy, purpose=EpisodePurpose.DEMONSTRATE)
    item = make_episode_ended(spec=spec)
    assert as_trainable(item) is item


def test_truncated_episodes_are_used_with_their_masks_and_where_nobody_needs_them() -> None:
    plain = make_transcript().tokens
    sets = [plain.ids_T[i : i + 1] if plain.mask_T[i] else plain.ids_T[:0] for i in range(6)]
    masked = plain.model_copy(update={"sampling_mask": SamplingMask.of(sets)})
    with_masks = make_transcript().model_copy(update={"tokens": masked})
    for item in (
        make_episode_ended(spec=make_spec(sampling=CUT), transcript=with_masks),
        make_episode_ended(spec=make_spec(sampling=CUT, purpose=EpisodePurpose.EVALUATE)),
        make_episode_ended(spec=make_spec(sampling=CUT, purpose=EpisodePurpose.DEMONSTRATE)),
        make_episode_ended(spec=make_spec(sampling=Sampling(repetition_penalty=1.2))),
    ):
        assert as_trainable(item) is item
