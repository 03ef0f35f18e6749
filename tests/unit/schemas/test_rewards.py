"""From the rewards of turns to the outcome of an episode."""

import pytest
from tests.support.items import SPEC

from warren_schemas.config import EnvironmentConfig, RewardReduction, RewardRules, TrainConfig
from warren_schemas.episode import Completed, Failed, FailureKind, StopReason
from warren_schemas.outcome import conclude
from warren_schemas.transcript import Transcript, Turn


@pytest.mark.parametrize(
    ("reduction", "reward"), [("sum", 3.0), ("mean", 1.0), ("max", 4.0), ("min", -2.0)]
)
def test_row_54_rewards_are_reduced_without_the_turns_that_gave_none(
    reduction: str, reward: float
) -> None:
    rules = RewardRules(reduction=RewardReduction(reduction))
    assert rules.reduce([1.0, None, 4.0, -2.0], is_terminal=True) == reward


def test_row_54_a_nonterminal_reward_counts_only_where_the_episode_was_cut() -> None:
    rules = RewardRules(reduction=RewardReduction.MIN, nonterminal=-1.0)
    assert rules.reduce([0.5], is_terminal=False) == -1.0
    assert rules.reduce([0.5], is_terminal=True) == 0.5
    assert rules.reduce([None], is_terminal=False) == -1.0


def test_row_54_rewards_are_clamped_after_the_reduction() -> None:
    rules = RewardRules(minimum=-1.0, maximum=1.0)
    assert rules.reduce([3.0, -2.5], is_terminal=True) == 0.5
    assert rules.reduce([3.0], is_terminal=True) == 1.0
    assert rules.reduce([-3.0], is_terminal=True) == -1.0


def ended(*rewards: float | None, stop: StopReason = StopReason.DONE) -> Completed | Failed:
    turns = tuple(Turn(reward=reward, digest="d", metrics={"n": 1.0}) for reward in rewards)
    return conclude(SPEC, Transcript(turns=turns), stop)


def test_no_reward_is_a_failure_and_not_a_reward_of_0() -> None:
    for stop in StopReason:
        outcome = ended(None, None, stop=stop)
        assert isinstance(outcome, Failed)
        assert (outcome.kind, outcome.retryable) == (FailureKind.NO_REWARD, False)


def test_an_episode_that_was_cut_is_truncated() -> None:
    for stop in set(StopReason) - {StopReason.DONE}:
        outcome = ended(1.0, 0.0, stop=stop)
        assert outcome == Completed(reward=1.0, stop=stop, metrics={"n": 1.0})
        assert isinstance(outcome, Completed) and outcome.truncated


def test_rewards_that_add_up_to_no_number_are_refused() -> None:
    outcome = ended(1e308, 1e308)
    assert isinstance(outcome, Failed)
    assert outcome.kind is FailureKind.INVALID_REWARD


def test_clamps_and_failed_members_must_make_sense() -> None:
    with pytest.raises(ValueError, match="min_reward 1 is above max_reward 0"):
        EnvironmentConfig(name="guess", min_reward=1.0, max_reward=0.0)
    with pytest.raises(ValueError, match=r"environments\.0\.max_failed_members: a group of 4"):
        TrainConfig.model_validate(
            {
                "model": {"base": "tiny"},
                "environments": [{"name": "guess", "group_size": 4, "max_failed_members": 3}],
            }
        )
