"""An episode that was taken to be played.

Invariant: it ends once: with the first outcome that its player tells, or because Warren has ended it (the
run has, it was cut at `limits.max_turns`, or its deadline has passed). What is told later changes nothing.
"""

import asyncio
from collections.abc import Mapping
from typing import Generic, TypeVar

from warren.agents.live import MODEL
from warren.environment import Score
from warren.episodes.messages import Offer, Outcome

TaskT = TypeVar("TaskT")


class Episode(Generic[TaskT]):
    """Use `base_url` and `api_key` as those of any model, then `finish` or `fail`; from any thread."""

    model = MODEL
    """What to call the policy where a client wants a name."""

    def __init__(self, offer: Offer, task: TaskT) -> None:
        self.task = task
        self.base_url = offer.base_url
        """For clients of OpenAI's API; those of Anthropic's take `root_url`."""
        self.root_url = offer.root_url
        self.api_key = offer.api_key
        """Stands for this episode, and is refused once that is over."""
        self.split = offer.split
        self.index = offer.index
        """Number of the task in the run, counted from 0 without end; the same for all members of a group."""
        self.member = offer.member
        self.seed = offer.seed
        """The same for all members of a group."""
        self._rewards: list[float] = []
        self._metrics: dict[str, float] = {}
        self._loop = asyncio.get_running_loop()
        self._outcome: asyncio.Future[Outcome | None] = self._loop.create_future()

    def __repr__(self) -> str:
        return f"<Episode {self.split} {self.index}, member {self.member}>"

    @property
    def is_over(self) -> bool:
        return self._outcome.done()

    def reward(self, value: float) -> None:
        """Add to the reward that `finish` gives."""
        self._rewards.append(value)

    def metric(self, name: str, value: float) -> None:
        """A number for charts; the last value of a name counts."""
        self._metrics[name] = value

    def finish(self, score: Score = None) -> None:
        """End it with this reward, or with parts of one by their names, beside what `reward` added."""
        parts = dict(score) if isinstance(score, Mapping) else {}
        total = sum(parts.values()) if isinstance(score, Mapping) else score
        given = [*self._rewards, *([] if total is None else [total])]
        reward = float(sum(given)) if given else None
        self._end(Outcome(reward=reward, metrics={**self._metrics, **parts}))

    def fail(self, reason: str) -> None:
        """End it without a reward; it is tried again, as the run's `episode_attempts` say."""
        self._end(Outcome(failure=reason))

    def lapse(self) -> None:
        """Warren has ended it, and wants no outcome any more."""
        self._end(None)

    async def outcome(self) -> Outcome | None:
        """What its player tells; None where Warren has ended it first."""
        return await asyncio.shield(self._outcome)

    def _end(self, outcome: Outcome | None) -> None:
        self._loop.call_soon_threadsafe(self._settle, outcome)

    def _settle(self, outcome: Outcome | None) -> None:
        if not self._outcome.done():
            self._outcome.set_result(outcome)
