"""A game class as OpenTinker has them; it knows nothing of Warren."""

import random
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Result:
    observation: str
    reward: float
    done: bool
    info: dict[str, Any] = field(default_factory=dict[str, Any])


class HighLowGame:
    """Find a number; takes its chance from the global `random`."""

    def __init__(self, high: int = 9, max_steps: int = 3) -> None:
        self.high, self.n_left, self.hidden = high, max_steps, 0

    def reset(self, lowest: int = 0, **kwargs: Any) -> str:
        self.hidden = random.randint(lowest, self.high)
        return f"from {lowest} to {self.high}, hint {self.hidden % 2}"

    def step(self, action: str) -> Result:
        self.n_left -= 1
        is_found = action == str(self.hidden)
        info = {"found": is_found, "truncated": self.n_left == 0 and not is_found, "said": action}
        return Result("no", float(is_found), is_found or self.n_left == 0, info)

    def get_system_prompt(self) -> str:
        return "Guess."

    def get_initial_user_message(self) -> str:
        return "Begin."


class StatefulGame(HighLowGame):
    """Makes its own start, and its own first message."""

    def generate_initial_state(self) -> dict[str, Any]:
        return {"lowest": 9}

    def get_user_message_with_state(self) -> str:
        return f"The number is {self.hidden}."
