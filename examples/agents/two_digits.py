"""The task of all agents here: two digits, one after the other; is each even (`e`) or odd (`o`)?

The reward is the share of right answers. `demonstrate` says any legal answer, so SFT teaches the format alone.
"""

import random
from collections.abc import Awaitable, Callable

from warren import Agent, AgentEnv, CommandAgent

N_DIGITS = 2
Say = Callable[[str], Awaitable[str | None]]
"""One call of the model with all that was said before: from what is asked to what it answers."""


class TwoDigits(AgentEnv):
    """What the agents have in common; each says how it calls the model."""

    def demonstrate(self, rng: random.Random) -> str:
        return rng.choice("eo")


def digits(agent: Agent) -> list[int]:
    return [agent.context.rng.randrange(10) for _ in range(N_DIGITS)]


async def asked(agent: Agent, say: Say) -> None:
    """A conversation about the digits; each right answer is rewarded at its own turn."""
    for digit in digits(agent):
        said = await say(f"{digit}?")
        agent.reward(is_right(digit, said) / N_DIGITS)


def is_right(digit: int, said: str | None) -> bool:
    return said == "eo"[digit % 2]


class TwoDigitsProgram(CommandAgent):
    """The same for programs: they find the digits in `DIGITS` and write the reward themselves."""

    def demonstrate(self, rng: random.Random) -> str:
        return rng.choice("eo")

    def variables(self, task: None, agent: Agent) -> dict[str, str]:
        told = " ".join(map(str, digits(agent)))
        return {**super().variables(task, agent), "DIGITS": told}
