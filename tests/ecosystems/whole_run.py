"""A small run of an ecosystem's environment, in the middle of which its foreign part is killed.

It is trained and evaluated to its end: no group is lost, and what an episode got before and after is a reward of a whole episode.
"""

import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.ecosystems.held import GO_ON, HELD_IN, WENT_ON
from tests.support.brokers import eventually
from tests.support.hosting import child_pids
from tests.support.one_process import in_process, tiny_site
from tests.support.processes import children, kill_and_wait

import warren
from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import TrainConfig
from warren_schemas.episode import Completed, Failed
from warren_schemas.http import EvaluationReport, TrajectoryView
from warren_schemas.http.evaluations import EvaluationState
from warren_schemas.operator_policy import TRUSTING

N_STEPS, GROUP_SIZE, N_GROUPS = 2, 4, 2
N_EVALUATED = 2
CONTEXT_LENGTH = 16_384

Kill = Callable[[warren.Run], Awaitable[None]]
"""Called once the run was submitted."""


@dataclass(frozen=True)
class WholeRun:
    name: str
    reference: str
    """Of the environment, as module:Class."""
    config: Mapping[str, object]
    """Of the environment."""
    rewards: Sequence[Mapping[str, object]] = ()
    evaluation_split: str | None = None
    max_turns: int = 3

    async def play(self, folder: Path, kill: Kill) -> list[TrajectoryView]:
        """All attempts of all episodes."""
        site = tiny_site(folder / "home", lambda: in_process(folder / "streams"))
        lengthen(Path(site.gpu.base_models["warren/tiny"]))
        async with site.running(site.gpu_worker, self._env_worker) as client:
            run = await client.train(self._train_config)
            await kill(run)
            await run.result()
            played = [view async for view in run.trajectories(all_attempts=True)]
            reports = [await run.evaluation(one.number) for one in await run.evaluations()]
        self._require_whole_groups(played)
        assert [report.when for report in reports] == ["before", "after"]
        for report in reports:
            _require_evaluated(report, played)
        return played

    async def _env_worker(self, broker: Broker) -> None:
        settings = EnvWorkerSettings(
            environments=(f"{self.name}={self.reference}",), only_named=True
        )
        await serve_env_worker(broker, settings, policy=TRUSTING)

    @property
    def _train_config(self) -> TrainConfig:
        of = {
            "name": self.name,
            "config": self.config,
            "rewards": self.rewards,
            "evaluation_split": self.evaluation_split,
            "max_turns": self.max_turns,
            "nonterminal_reward": 0.0,
        }
        return TrainConfig.model_validate(
            {
                "name": "whole",
                "model": {"base": "warren/tiny", "update": {"kind": "full"}},
                "environments": [of],
                "sampling": {"max_tokens": 4},
                "algorithm": {
                    "group_size": GROUP_SIZE,
                    "groups_per_step": N_GROUPS,
                    "max_staleness": 0,
                },
                "evaluation": {"episodes": N_EVALUATED},
                "limits": {"steps": N_STEPS, "episode_attempts": 1, "failed_groups": 1},
            }
        )

    def _require_whole_groups(self, played: list[TrajectoryView]) -> None:
        outcomes = [view.trajectory.outcome for view in played]
        assert not [outcome for outcome in outcomes if isinstance(outcome, Failed)]
        trained = [view for view in played if view.fate == "trained"]
        assert {type(view.trajectory.outcome) for view in trained} == {Completed}
        assert len(trained) == N_STEPS * N_GROUPS * GROUP_SIZE


def lengthen(model: Path) -> None:
    """What other packages show takes more than the tiny model's 512 characters."""
    for name, key in (
        ("config.json", "max_position_embeddings"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        told = json.loads((model / name).read_text())
        (model / name).write_text(json.dumps(told | {key: CONTEXT_LENGTH}))


def _require_evaluated(report: EvaluationReport, played: list[TrajectoryView]) -> None:
    """What it reports is the mean of the episodes that it played."""
    of_step = [view for view in played if view.fate == "evaluated" and view.step == report.step]
    outcomes = [view.trajectory.outcome for view in of_step]
    rewards = [outcome.reward for outcome in outcomes if isinstance(outcome, Completed)]
    assert report.state is EvaluationState.COMPLETE
    assert (report.scores.n_episodes, report.scores.n_failed) == (len(rewards), 0)
    assert len(rewards) == N_EVALUATED
    assert report.scores.reward_mean == pytest.approx(sum(rewards) / len(rewards))


async def play_through_loss(
    run: WholeRun, folder: Path, kill: Callable[[], object]
) -> list[TrajectoryView]:
    """An environment of `tests.ecosystems.held`: `kill` is called while episodes of a group wait between two turns. What they are
    played on is lost with what they did there, and they go on."""
    waiting = folder / "waiting"
    waiting.mkdir()

    async def kill_while_one_waits(_: warren.Run) -> None:
        await _until_one_waits(waiting)
        kill()
        (waiting / GO_ON).touch()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(HELD_IN, str(waiting))
        played = await run.play(folder, kill_while_one_waits)
    assert (waiting / WENT_ON).exists()
    return played


def kill_foreign_processes() -> None:
    """Fork servers, and the processes of the live episodes that they forked."""
    servers = fork_servers()
    episodes = [pid for server in servers for pid in children(server)]
    assert episodes
    kill_and_wait([*servers, *episodes])


def once_one_waits(folder: Path) -> Kill:
    """Kills foreign processes once an episode is in its middle: foreign code in it leaves a file in this folder, and waits to be
    killed unless `GO_ON` is there."""

    async def kill(_: warren.Run) -> None:
        await _until_one_waits(folder)
        (folder / GO_ON).touch()  # before, so that none that begins later waits
        kill_foreign_processes()

    return kill


async def _until_one_waits(folder: Path) -> None:
    async def is_waiting() -> bool:
        return bool(os.listdir(folder))

    await eventually(is_waiting)


def fork_servers() -> list[int]:
    """Of the hosts of this test process."""
    return [server for host in child_pids() for server in children(host)]
