"""Episodes with images: what is made of them by their purpose."""

import pytest
from tests.support.factories import (
    make_episode_ended,
    make_failed_episode,
    make_spec,
    make_transcript,
)

from warren_gateway.coordinator.rollouts.trainable import as_trainable
from warren_schemas.episode import EpisodePurpose, Failed, FailureKind
from warren_schemas.transcript import ChatMessage, Image

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
