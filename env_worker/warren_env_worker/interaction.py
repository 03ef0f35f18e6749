"""One attempt at an episode, as far as this worker took it."""

import time
from dataclasses import dataclass, field

import numpy as np

from warren_broker.inbox import Claim
from warren_env_worker.successor import Successor, Taken
from warren_schemas.episode import Generate, Step
from warren_schemas.ids import EpisodeId, RunId
from warren_schemas.transcript import Tokens

IDLE_S = 3600.0
"""How long an episode without a deadline is held after its last turn."""


@dataclass(slots=True)
class Interaction:
    taken: Taken
    """The item that was taken last."""
    slot: int
    """Of the live environment, in its host."""
    started_s: float
    expires_s: float
    claims: list[Claim[Taken]] = field(default_factory=list[Claim[Taken]])
    """Wait for the answer of the environment."""
    successor: Successor | None = None
    """Of `taken`; None until the environment has answered."""
    asked_s: float = 0.0
    """When the environment was asked; by this process's own clock, as all that is measured."""
    answered_s: float = 0.0
    waited_s: float = 0.0
    """From the answer before until `taken` was there, less what the sampler says that it took."""
    is_rebuilt: bool = False
    """`taken` is not the start, and its environment was made anew here."""

    @classmethod
    def begin(cls, taken: Taken, slot: int) -> "Interaction":
        return cls(
            taken,
            slot,
            started_s=time.time(),
            expires_s=_expires_s(taken),
            is_rebuilt=isinstance(taken, Step),
        )

    @property
    def attempt(self) -> int:
        return self.taken.envelope.attempt

    @property
    def turn(self) -> int:
        return turn_of(self.taken)

    @property
    def is_over(self) -> bool:
        return self.successor is not None and self.successor.is_end

    def leads_to(self, step: Step) -> bool:
        """True if the live environment is where this step's history ends."""
        if self.successor is None or not isinstance(self.successor.item, Generate):
            return False
        asked = self.successor.item
        return (
            step.turn == self.turn + 1
            and step.transcript.messages[:-1] == asked.transcript.messages
            and (not asked.is_plain or _begins_with(step, asked.transcript.tokens))
        )

    def advance(self, step: Step) -> None:
        """Where it came here by a step that its last home had answered already, the step that follows may be
        one of that home's: it goes on with the recoveries that are left here."""
        if step.spec.n_recoveries_left > self.taken.spec.n_recoveries_left:
            step = step.model_copy(update={"spec": self.taken.spec})
        asked = self.successor.item.transcript.times if self.successor else step.transcript.times
        sampling_s = step.transcript.times.sampling_s - asked.sampling_s
        self.waited_s = max(0.0, time.monotonic() - self.answered_s - sampling_s)
        self.is_rebuilt = False
        self.taken = step
        self.successor = None
        self.expires_s = _expires_s(step)


def _begins_with(step: Step, tokens: Tokens) -> bool:
    return np.array_equal(step.transcript.tokens.ids_T[: len(tokens)], tokens.ids_T)


def episode_of(item: Taken) -> EpisodeId:
    assert item.envelope.episode is not None  # `misfit` comes first
    return item.envelope.episode


def run_of(item: Taken) -> RunId:
    assert item.envelope.run is not None
    return item.envelope.run


def turn_of(item: Taken) -> int:
    return item.turn if isinstance(item, Step) else 0


def misfit(item: Taken) -> str | None:
    """Why nobody could take this item, whatever they know; None if it can be taken."""
    if item.envelope.run is None or item.envelope.episode is None:
        return "the envelope names no run or no episode"
    if isinstance(item, Step):
        transcript = item.transcript
        n_actions, n_turns = transcript.n_actions, len(transcript.turns)
        if n_actions != item.turn or n_turns != item.turn - 1:
            return f"step {item.turn} carries {n_actions} actions and {n_turns} answers"
        if not transcript.messages[-1].is_action:
            return f"step {item.turn} does not end with an action"
        if transcript.set_aside and len(transcript.actions) != n_actions:
            return f"step {item.turn} has actions in branches that its answers don't name"
    return None


def _expires_s(item: Taken) -> float:
    return item.envelope.deadline_s or time.time() + IDLE_S
