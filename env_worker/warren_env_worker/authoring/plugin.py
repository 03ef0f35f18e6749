"""A plugin of pytest for tests of environments: `pytest -p warren_env_worker.authoring.plugin`, or `warren env test`.

def test_right_answers_are_rewarded(play: Play) -> None:
    assert play(MyEnv, ["5"], seed=3).reward == 1.0

def test_it_keeps_to_the_rules(check: Check) -> None:
    check(MyEnv)
"""

import asyncio
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from warren.environment import Env
from warren_env_worker.authoring.playing import (
    Asked,
    PlayedEpisode,
    Players,
    Policy,
    reference_of,
)
from warren_env_worker.check.finding import Finding, Mark, line
from warren_env_worker.check.watching import watched
from warren_env_worker.output.log import OutputLog, log_path

__all__ = ["Check", "Play", "PlayedEpisode", "Policy", "check", "play"]


class Play(Protocol):
    """Plays an episode in a process of its own, as an env worker does; raises where it fails."""

    def __call__(
        self,
        environment: type[Env[Any]] | str,
        policy: Policy = None,
        /,
        *,
        config: Mapping[str, Any] | None = None,
        seed: int = 0,
        split: str = "train",
        index: int = 0,
        member: int = 0,
        level: int | None = None,
        max_turns: int = 32,
    ) -> PlayedEpisode:
        """The class, or `module:Class`; a function from all messages to the next action, or the actions in their order.
        Without a policy the environment's demonstrations are said."""
        ...


class Check(Protocol):
    """Fails where `warren env check` finds something wrong."""

    def __call__(
        self,
        environment: type[Env[Any]] | str,
        /,
        *,
        config: Mapping[str, Any] | None = None,
        split: str = "train",
    ) -> list[Finding]: ...


@pytest.fixture(scope="session")
def warren_players() -> Generator[Players]:
    """The processes of a test session; `play` is what tests use."""
    players = Players()
    yield players
    players.close()


@pytest.fixture
def play(warren_players: Players) -> Play:
    def played(
        environment: type[Env[Any]] | str,
        policy: Policy = None,
        /,
        *,
        config: Mapping[str, Any] | None = None,
        seed: int = 0,
        split: str = "train",
        index: int = 0,
        member: int = 0,
        level: int | None = None,
        max_turns: int = 32,
    ) -> PlayedEpisode:
        asked = Asked(config or {}, seed, split, index, member, level, max_turns)
        return warren_players.play(environment, policy, asked)

    return played


@pytest.fixture
def check(tmp_path: Path) -> Check:
    def checked(
        environment: type[Env[Any]] | str,
        /,
        *,
        config: Mapping[str, Any] | None = None,
        split: str = "train",
    ) -> list[Finding]:
        reference = reference_of(environment)
        log = OutputLog(log_path(tmp_path, reference))
        looking = watched(
            reference, dict(config or {}), split, log, tell=lambda _: None, say=lambda _: None
        )
        found, _ = asyncio.run(looking)
        wrong = [line(finding) for finding in found if finding.mark is Mark.BAD]
        if wrong:
            pytest.fail(
                "\n".join([f"{reference} breaks rules of environments:", *wrong]), pytrace=False
            )
        return found

    return checked
