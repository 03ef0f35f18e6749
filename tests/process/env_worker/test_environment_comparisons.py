"""`score_group`: groups that their environment compares, in its own processes, and all that may go wrong there."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.process.env_worker.test_comparisons import HERE as FUNCTIONS
from tests.process.env_worker.test_comparisons import MEMBERS, Worker, comparing
from tests.support.forked_hosts import hosting
from tests.support.hosting import playing
from tests.support.interacting import RUN, endings, sampling, spec, start, start_all
from tests.support.patience import PATIENCE_S

from warren_broker.memory import open_hub
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import FunctionReward, GroupFunctionReward, OwnReward
from warren_schemas.envelope import Envelope
from warren_schemas.episode import Completed, EpisodeEnded, Failed, FailureKind, TaskRef
from warren_schemas.group_scoring import GroupRewards, MemberReward, ScoreGroup
from warren_schemas.ids import EpisodeId, WorkerId
from warren_schemas.operator_policy import TRUSTING

HERE = "tests.support.comparing_environments"
NEAR = {"bonus": 1.0}
RANK = GroupFunctionReward(function=f"{FUNCTIONS}:rank", weight=0.5)
LENGTHS = [10, 5, 5]
"""Of what the members said."""


@asynccontextmanager
async def hosted(*names: str) -> AsyncGenerator[Worker]:
    """A worker that hosts classes of `comparing_environments`."""
    async with hosting(f"{HERE}:{names[0]}") as host, comparing(hosts={names[0]: host}) as worker:
        yield worker


def asked(environment: str, config: dict[str, Any] | None = None, **changes: Any) -> ScoreGroup:
    changes = {"environment": environment, "environment_config": config or {}} | changes
    of = spec(**changes)
    of = of.model_copy(update={"task": of.task.model_copy(update={"shuffle": False})})
    envelope = Envelope(run=RUN, episode=EpisodeId("group_1.group"))
    return ScoreGroup(envelope=envelope, spec=of, members=MEMBERS, by_environment=True)


async def rewards(worker: Worker, item: ScoreGroup) -> tuple[MemberReward, ...]:
    outcome = (await worker.answer(item)).outcome
    assert isinstance(outcome, GroupRewards), outcome
    return outcome.members


async def failure(worker: Worker, item: ScoreGroup) -> Failed:
    outcome = (await worker.answer(item)).outcome
    assert isinstance(outcome, Failed), outcome
    return outcome


@pytest.mark.parametrize("name", ["Compared", "Awaited", "Together"])
async def test_each_member_gets_what_its_environment_gave_it_beside_the_others(name: str) -> None:
    async with hosted(name) as worker:
        given = await rewards(worker, asked(name))
        twice = await rewards(worker, asked(name, {"twice": True}))
    assert given == tuple(
        MemberReward(member=member, reward=longer + 1.0, metrics={"longer": longer, **NEAR})
        for member, longer in ((0, 5.0), (2, 0.0), (3, 0.0))
    )
    assert [each.reward for each in twice] == [11.0, 1.0, 1.0]


async def test_episodes_that_were_recorded_at_a_level_are_compared_without_it() -> None:
    async with hosted("Compared") as worker:
        given = await rewards(worker, asked("Compared"))
        assert given == await rewards(worker, asked("Compared", task=TaskRef(index=0, level=1)))


@pytest.mark.parametrize("name", ["Compared", "Awaited", "Together"])
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raises", r"ValueError: no ranking today \(.*comparing_environments\.py:\d+\)"),
        ("too few", "must return a sequence of 3 rewards, one for each episode; it returned 1"),
        ("none", r"score_group\(\) must return a sequence of 3 rewards.*; it returned NoneType"),
        ("a text", r"score_group\(\) must return a sequence of 3 rewards.*; it returned str"),
        ("a hole", r"score_group\(\) at \[1\] returned the reward None; expected a number"),
        ("no number", r"score_group\(\) at \[1\] returned the reward nan"),
        ("words", r"score_group\(\) at \[1\] returned the reward of type str; expected a number"),
        ("exits", r"in score_group\(\), .* 7"),
    ],
)
async def test_what_fails_is_told_and_the_next_group_is_compared(
    name: str, how: str, reason: str
) -> None:
    async with hosted(name) as worker:
        failed = await failure(worker, asked(name, {"breaks": how}))
        await rewards(worker, asked(name))
    assert (failed.kind, failed.retryable) == (FailureKind.REWARD_FAILED, True)
    assert failed.reason.startswith(f"{name} could not compare the group: ")
    assert re.search(reason, failed.reason), failed.reason


async def test_what_takes_too_long_is_ended() -> None:
    async with hosted("Slow") as worker:
        failed = await failure(worker, asked("Slow"))
    assert failed.kind is FailureKind.REWARD_FAILED
    assert "a call took longer than 0.2 s" in failed.reason


async def test_a_config_that_it_can_not_be_made_of_is_told_as_that() -> None:
    async with hosted("Compared") as worker:
        failed = await failure(worker, asked("Compared", {"twise": True}))
    assert (failed.kind, failed.retryable) == (FailureKind.ENVIRONMENT_CONFIG, False)


async def test_a_worker_with_another_version_of_the_class_says_so_and_another_may_try() -> None:
    async with hosting("Letters") as host, comparing(hosts={"letters": host}) as worker:
        failed = await failure(worker, asked("letters"))
        strange = await failure(worker, asked("nobody's"))
    assert (failed.kind, failed.retryable) == (FailureKind.REWARD_FAILED, True)
    assert "Letters has no score_group()" in failed.reason
    assert strange.kind is FailureKind.UNKNOWN_ENVIRONMENT


async def test_parts_of_the_config_come_on_top_and_see_what_the_environment_gave() -> None:
    rubric = (OwnReward(weight=2.0), FunctionReward(function=f"{FUNCTIONS}:brevity"))
    by_reward = GroupFunctionReward(function=f"{FUNCTIONS}:rewards_so_far", weight=1.0)
    async with hosted("Compared") as worker:
        item = asked("Compared", rewards=rubric, group_parts=(RANK, by_reward))
        given = await rewards(worker, item)
    own = [6.0, 1.0, 1.0]
    assert [each.metrics["reward/own"] for each in given] == own
    so_far = [before + 2.0 * each for before, each in zip((0.5, 1.0, 0.0), own, strict=True)]
    assert [each.metrics["reward/rewards_so_far"] for each in given] == so_far
    ranked = [each.metrics["reward/rank"] for each in given]
    assert [each.reward for each in given] == [
        2.0 * own + 0.5 * rank + before
        for own, rank, before in zip(own, ranked, so_far, strict=True)
    ]


async def test_a_comparison_takes_no_place_of_an_episode() -> None:
    async with hosting(f"{HERE}:Compared") as host:
        await host.start()
        slot = host.open_beside()
        assert host.has_capacity, "for the one episode that a worker holds"
        await playing(host, "Compared")
        assert not host.has_capacity
        host.close(slot)
        assert not host.has_capacity


@asynccontextmanager
async def played(tmp_path: Path, **changes: Any) -> AsyncGenerator[EpisodeEnded]:
    """The end of an episode of `Compared`, as an env worker tells it."""
    settings = EnvWorkerSettings(
        environments=(f"{HERE}:Compared",), only_named=True, worker=WorkerId("env_1")
    )
    async with open_hub(tmp_path) as hub, sampling(broker := hub.client("test")):
        client = hub.client("env_1")
        serving = asyncio.create_task(serve_env_worker(client, settings, policy=TRUSTING))
        await start_all(broker, [start("ep_1", spec("compared", **changes))])
        try:
            [ended] = await asyncio.wait_for(endings(broker, 1), PATIENCE_S)
            yield ended
        finally:
            serving.cancel()
            await asyncio.wait({serving})


OWN, BREVITY = OwnReward(), FunctionReward(function=f"{FUNCTIONS}:brevity")


@pytest.mark.parametrize(
    ("rubric", "metrics"),
    [((), set[str]()), ((OWN,), set[str]()), ((OWN, BREVITY), {"reward/brevity"})],
)
async def test_an_episode_tells_that_it_is_yet_to_be_compared(
    tmp_path: Path, rubric: tuple[Any, ...], metrics: set[str]
) -> None:
    async with played(tmp_path, rewards=rubric) as ended:
        assert ended.uncompared == "done"
        assert set(ended.transcript.turns[-1].metrics) == metrics | {"n"}
        assert isinstance(ended.outcome, Completed) == (BREVITY in rubric)
        if isinstance(ended.outcome, Failed):
            assert ended.outcome.kind is FailureKind.NO_REWARD


async def test_where_the_environment_s_own_reward_does_not_count_nobody_asks_for_it(
    tmp_path: Path,
) -> None:
    async with played(tmp_path, rewards=(BREVITY,)) as ended:
        assert ended.uncompared is None
        assert isinstance(ended.outcome, Completed)
