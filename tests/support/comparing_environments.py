"""Environments that compare the episodes of a group themselves (`score_group`), well or not, as their config says."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from tests.support.scored_environments import LOOK_S, Priced, ranks

from warren.environment import Context, Env, EpisodeTranscript, Limits, StepResult

TASKS = ({"id": "near", "bonus": 1.0}, {"id": "far", "bonus": 10.0})


class Compared(Env[dict[str, Any]]):
    """Its turns give nothing: an episode gets the number of letters that it said more than the shortest one, and what its
    task adds to that."""

    name = "compared"
    limits = Limits(score_s=5.0, max_episodes=1)
    was_reset = False

    def __init__(self, breaks: str = "", twice: bool = False) -> None:
        self.breaks = breaks
        self.times = 2.0 if twice else 1.0

    def tasks(self, split: str) -> Sequence[dict[str, Any]]:
        return TASKS

    def reset(self, task: dict[str, Any], ctx: Context) -> str:
        self.was_reset = True
        return "?"

    def step(self, action: str) -> StepResult:
        return StepResult(done=True, metrics={"n": float(len(action))})

    def score_group(
        self, transcripts: Sequence[EpisodeTranscript], task: dict[str, Any]
    ) -> list[dict[str, float]]:
        assert not self.was_reset and self.context.index == 0
        if self.breaks:
            return _broken(self.breaks)
        shortest = min(len(each.response) for each in transcripts)
        return [
            {"longer": self.times * (len(each.response) - shortest), "bonus": task["bonus"]}
            for each in transcripts
        ]


def _broken(how: str) -> list[dict[str, float]]:
    if how == "raises":
        raise ValueError("no ranking today")
    if how == "exits":
        os._exit(7)
    given: dict[str, object] = {
        "too few": [1.0], "none": None, "a text": "123", "a hole": [1.0, None, 1.0],
        "no number": [1.0, float("nan"), 1.0], "words": [1.0, {"fine": "very"}, 1.0],
    }  # fmt: skip
    return cast("list[dict[str, float]]", given[how])


class Awaited(Compared):
    """The same, awaited."""

    name = "awaited"

    async def score_group(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, transcripts: Sequence[EpisodeTranscript], task: dict[str, Any]
    ) -> list[dict[str, float]]:
        return super().score_group(transcripts, task)


class Together(Compared):
    """The same, in a process that all episodes share."""

    name = "together"
    isolation = "shared"


class Slow(Compared):
    """It is over its time."""

    name = "slow"
    limits = Limits(score_s=0.2)

    def score_group(
        self, transcripts: Sequence[EpisodeTranscript], task: dict[str, Any]
    ) -> list[dict[str, float]]:
        while True:
            time.sleep(LOOK_S)


class Contest(Priced):
    """Guess, in which an episode's rank among its group counts as well; while the file `hold` is there nobody is ranked."""

    name = "contest"
    limits = Limits(score_s=600.0)

    def __init__(self, hold: str = "", worth: float = 1.0) -> None:
        super().__init__()
        self.file = Path(hold) if hold else None
        self.worth = worth

    def score_group(
        self, transcripts: Sequence[EpisodeTranscript], task: None
    ) -> list[dict[str, float]]:
        if self.file is not None and self.file.exists():
            self.file.with_suffix(".reached").touch()
            while self.file.exists():
                time.sleep(LOOK_S)
        given = ranks([each.response for each in transcripts])
        return [{"rank": self.worth * rank} for rank in given]
