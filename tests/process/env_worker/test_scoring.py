"""Recorded episodes that are played through once more for their rewards, by a worker that has never seen them."""

import pytest
from tests.process.env_worker.test_interactions import Worker, right, working
from tests.support.factories import make_tokens
from tests.support.interacting import said, spec, start

from warren_gateway.coordinator.rollouts.starting import unanswered
from warren_schemas.config import Sampling
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodeSpec,
    Failed,
    FailureKind,
    FinishReason,
    Step,
    StopReason,
)

GRADED = ("tests.support.scored_environments:Graded", "graded")


async def played(worker: Worker, of: EpisodeSpec) -> EpisodeEnded:
    """Its first action is wrong, the others are right."""
    worker.take(start(of=of))
    for words in ("x", None, None):
        item = await worker.generated()
        worker.take(said(item, words or right(item)))
    return await worker.ended()


def to_score(recorded: EpisodeEnded, **config: object) -> Step:
    """As a coordinator asks for it."""
    outcome, transcript = recorded.outcome, unanswered(recorded.transcript)
    assert isinstance(outcome, Completed) and transcript is not None
    changes = {"environment_config": recorded.spec.environment_config | config}
    return Step(
        envelope=recorded.envelope,
        spec=recorded.spec.model_copy(update=changes),
        transcript=transcript,
        turn=len(recorded.transcript.turns),
        finish=FinishReason.STOP,
        recorded_stop=outcome.stop,
    )


async def test_the_same_environment_gives_every_reward_and_metric_again() -> None:
    async with working(*GRADED) as first, working(*GRADED) as second:
        recorded = await played(first, spec("graded"))
        second.take(to_score(recorded))
        scored = await second.ended()
    assert [turn.reward for turn in recorded.transcript.turns] == [2.0, 3.0, 2.0]
    assert (
        scored.outcome
        == recorded.outcome
        == Completed(
            reward=7.0, metrics={"right_1": 0.0, "right_2": 1.0, "right_3": 1.0, "grade": 2.0}
        )
    )
    assert [turn.reward for turn in scored.transcript.turns] == [2.0, 3.0, 2.0]
    assert second.interactions.n_live == 0


async def test_another_config_gives_other_rewards() -> None:
    async with working(*GRADED) as first, working(*GRADED) as second:
        recorded = await played(first, spec("graded"))
        second.take(to_score(recorded, worth=10.0))
        scored = await second.ended()
    assert [turn.reward for turn in scored.transcript.turns] == [20.0, 30.0, 20.0]
    assert isinstance(scored.outcome, Completed) and scored.outcome.reward == 70.0


async def test_what_was_cut_at_its_tokens_is_cut_there_again_and_not_graded() -> None:
    """The sampler had no room for more; nothing of that is known to the environment."""
    of = spec("graded", sampling=Sampling(max_total_tokens=6))
    async with working(*GRADED) as first, working(*GRADED) as second:
        first.take(start(of=of))
        for n_tokens in (5, 6):
            step = said(await first.generated(), "x")
            tokens = step.transcript.model_copy(update={"tokens": make_tokens(n_tokens)})
            first.take(step.model_copy(update={"transcript": tokens}))
        recorded = await first.ended()
        unlimited = recorded.spec.model_copy(update={"sampling": Sampling()})
        second.take(to_score(recorded.model_copy(update={"spec": unlimited})))
        scored = await second.ended()
    assert isinstance(recorded.outcome, Completed)
    assert recorded.outcome.stop is StopReason.MAX_TOTAL_TOKENS
    assert scored.outcome == recorded.outcome


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"n_turns": 4}, "the environment goes on where the recorded episode ended"),
        ({"n_turns": 2}, "the environment showed something else"),
        ({"letters": "hgfedcba"}, "the environment showed something else"),
    ],
)
async def test_an_environment_in_which_it_went_otherwise_gives_no_reward(
    config: dict[str, object], told: str
) -> None:
    async with working() as first, working() as second:
        recorded = await played(first, spec())
        second.take(to_score(recorded, **config))
        failure = await second.failed()
    assert failure.kind is FailureKind.NOT_REPLAYABLE
    assert not failure.retryable, "it would go the same way again"
    assert told in failure.reason


async def test_an_environment_that_cannot_be_played_again_says_so_for_good() -> None:
    name = ("Unreplayable", "unreplayable")
    async with working(*name) as first, working(*name) as second:
        recorded = await played(first, spec("unreplayable"))
        second.take(to_score(recorded))
        failure = await second.failed()
    assert failure == Failed(kind=failure.kind, reason=failure.reason, retryable=False)
    assert failure.kind is FailureKind.NOT_REPLAYABLE
