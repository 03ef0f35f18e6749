"""Rubrics: parts of a run's config that reward episodes of any environment, by a real process of their own."""

import json
import re
from pathlib import Path

import pytest
from tests.process.env_worker.test_interactions import Worker, right, working
from tests.process.env_worker.test_scoring import GRADED, to_score
from tests.support.interacting import demonstration, said, spec, start

from warren_schemas.config import (
    CodeReward,
    FunctionReward,
    OwnReward,
    RewardReduction,
    RewardRules,
    Sampling,
    ServiceReward,
)
from warren_schemas.episode import Completed, EpisodeEnded, EpisodeSpec, Failed, FailureKind, Step

HERE = "tests.unit.env_worker.rewards.functions"
MATH = ("warren_env_worker.environments.math:Math", "math")
OWN = OwnReward(weight=2.0)
SHORT = FunctionReward(function=f"{HERE}:brevity", weight=0.5)
LONE = FunctionReward(function=f"{HERE}:gold_is_known", name="known")


async def last_step(worker: Worker, of: EpisodeSpec, episode: str = "ep_1") -> Step:
    """The last action of an episode of three turns, all but the first of which are right."""
    worker.take(start(episode, of=of))
    for words in ("x", None):
        item = await worker.generated()
        worker.take(said(item, words or right(item)))
    item = await worker.generated()
    return said(item, right(item))


async def played(worker: Worker, of: EpisodeSpec) -> EpisodeEnded:
    worker.take(await last_step(worker, of))
    return await worker.ended()


def rewards(ended: EpisodeEnded) -> list[float | None]:
    return [turn.reward for turn in ended.transcript.turns]


def failure(ended: EpisodeEnded) -> Failed:
    assert isinstance(ended.outcome, Failed), ended.outcome
    return ended.outcome


async def test_parts_are_added_to_the_last_turn_and_own_rewards_are_weighted_where_they_are() -> (
    None
):
    async with working(*GRADED) as worker:
        ended = await played(worker, spec("graded", rewards=(OWN, SHORT)))
    assert rewards(ended) == [4.0, 6.0, 3.5]
    assert isinstance(ended.outcome, Completed) and ended.outcome.reward == 13.5
    assert ended.outcome.metrics["reward/own"] == 7.0
    assert ended.outcome.metrics["reward/brevity"] == -1.0
    assert worker.interactions.n_live == 0


async def test_without_its_own_part_nothing_of_the_environment_counts() -> None:
    rules = RewardRules(reduction=RewardReduction.MIN)
    async with working(*GRADED) as worker:
        ended = await played(worker, spec("graded", rewards=(SHORT,), reward_rules=rules))
    assert rewards(ended) == [None, None, -0.5]
    assert isinstance(ended.outcome, Completed) and ended.outcome.reward == -0.5


async def test_an_episode_that_moves_before_its_last_turn_is_rewarded_alike() -> None:
    of = spec("graded", rewards=(OWN, SHORT))
    async with working(*GRADED) as first, working(*GRADED) as second:
        last = await last_step(first, of)
        first.take(last)
        stayed = await first.ended()
        second.take(last)  # nobody knows whether the first one did it
        moved = await second.ended()
    assert rewards(moved) == rewards(stayed)
    assert moved.outcome == stayed.outcome


async def test_scored_anew_by_the_same_parts_it_is_worth_the_same_and_by_others_something_else() -> (
    None
):
    async with working(*GRADED) as first, working(*GRADED) as second:
        recorded = await played(first, spec("graded", rewards=(OWN, SHORT)))
        second.take(to_score(recorded))
        same = await second.ended()
        again = to_score(recorded)
        second.take(
            again.model_copy(
                update={
                    "envelope": again.envelope.model_copy(update={"attempt": 2}),
                    "spec": again.spec.model_copy(update={"rewards": (SHORT,)}),
                }
            )
        )
        other = await second.ended()
    assert same.outcome == recorded.outcome
    assert isinstance(other.outcome, Completed) and other.outcome.reward == -0.5


async def test_what_is_asked_twice_while_a_part_is_at_work_is_answered_once_each() -> None:
    async with working(*GRADED) as worker:
        last = await last_step(worker, spec("graded", rewards=(OWN, SHORT)))
        claims = [worker.take(last), worker.take(last)]
        await worker.ended()
        assert [claim.fate for claim in claims] == ["done", "done"]
        assert worker.published.empty()


@pytest.mark.parametrize(
    ("part", "kind", "reason", "is_retryable"),
    [
        (
            FunctionReward(function=f"{HERE}:raises"),
            FailureKind.REWARD_FAILED,
            "the reward raises failed: .*ZeroDivisionError",
            True,
        ),
        (
            FunctionReward(function=f"{HERE}:dies"),
            FailureKind.REWARD_FAILED,
            "in a part of the reward, .* 7",
            True,
        ),
        (
            CodeReward(code="def reward(response): return 1 / 0"),
            FailureKind.REWARD_FAILED,
            "the reward code0 failed",
            True,
        ),
        (
            FunctionReward(function=f"{HERE}:nothing"),
            FailureKind.ENVIRONMENT_CONFIG,
            "there is no reward function",
            False,
        ),
        (
            ServiceReward(url="http://127.0.0.1:1/", tries=1),
            FailureKind.REWARD_FAILED,
            "it can't be reached, or it failed",
            True,
        ),
    ],
)
async def test_a_part_that_fails_fails_the_episode_and_gives_no_zero(
    part: FunctionReward, kind: FailureKind, reason: str, is_retryable: bool
) -> None:
    async with working(*GRADED) as worker:
        failed = failure(await played(worker, spec("graded", rewards=(part, OWN))))
        assert (failed.kind, failed.retryable) == (kind, is_retryable)
        assert re.search(reason, failed.reason)
        worker.take(await last_step(worker, spec("graded", rewards=(SHORT,)), "ep_2"))
        assert isinstance((await worker.ended()).outcome, Completed)


async def test_a_demonstration_is_not_rewarded_by_a_rubric() -> None:
    of = demonstration("letters", rewards=(FunctionReward(function=f"{HERE}:raises"),))
    async with working() as worker:
        assert isinstance((await played(worker, of)).outcome, Completed)


async def test_an_episode_that_is_cut_at_its_tokens_is_rewarded_too() -> None:
    of = spec("graded", sampling=Sampling(max_total_tokens=1), rewards=(SHORT,), max_turns=1)
    async with working(*GRADED) as worker:
        worker.take(start(of=of))
        worker.take(said(await worker.generated(), "one two"))
        outcome = (await worker.ended()).outcome
    assert isinstance(outcome, Completed) and outcome.reward == -1.0


async def test_parts_know_the_right_answer_and_a_question_without_one_has_no_own_reward(
    tmp_path: Path,
) -> None:
    path = tmp_path / "questions.jsonl"
    rows: list[dict[str, str]] = [
        {"question": "Be brief."},
        {"question": "6*7?", "answer": "#### 42"},
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    config = {"path": str(path), "needs_answers": False}
    async with working(*MATH) as worker:
        outcomes: list[object] = []
        for index in range(2):
            of = spec("math", environment_config=config, rewards=(LONE,), task={"index": index})
            worker.take(start(f"ep_{index}", of=of))
            worker.take(said(await worker.generated(), r"\boxed{42}"))
            outcome = (await worker.ended()).outcome
            assert isinstance(outcome, Completed)
            outcomes.append(outcome.reward)
        assert sorted(outcomes, key=str) == [1.0, 10.0]
        of = spec("math", environment_config=config, rewards=(OWN, LONE), task={"index": 0})
        of = of.model_copy(update={"member": 1})
        kinds: set[FailureKind | None] = set()
        for index in range(2):
            each = of.model_copy(update={"task": of.task.model_copy(update={"index": index})})
            worker.take(start(f"ep_own_{index}", of=each))
            worker.take(said(await worker.generated(), r"\boxed{42}"))
            outcome = (await worker.ended()).outcome
            kinds.add(outcome.kind if isinstance(outcome, Failed) else None)
    assert kinds == {None, FailureKind.NO_REWARD}
