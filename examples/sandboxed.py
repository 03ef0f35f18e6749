"""A sandbox and the verifier: the policy writes Python to find a number, sees what it prints, and answers.

warren up --env sandboxed:Primes    # in this folder
warren env check sandboxed:Primes
"""

import random
import re

from warren import Env, StepResult
from warren.environment import Context, Limits
from warren.host_services import AnswerForm, CellStatus, SandboxSettings, Verdict

CODE = re.compile(r"```python\n(.*?)```", re.DOTALL)


class Primes(Env):
    """How many primes are there below a number? Methods may block, so they wait for what they ask."""

    name = "primes"
    limits = Limits(step_s=60.0)  # a cell, and its turn among those of others

    def __init__(
        self, largest: int = 1000, max_cells: int = 4, sandbox: SandboxSettings | None = None
    ) -> None:
        self.largest, self.n_cells_left = largest, max_cells
        self.sandbox = sandbox or SandboxSettings()  # what the run's config says

    def system_prompt(self) -> str:
        return (
            "To run Python, write a block that begins with ```python. You are shown what it prints."
            " Answer without a block, as in <answer>42</answer>."
        )

    def reset(self, task: None, ctx: Context) -> str:
        self.below = ctx.rng.randrange(10, self.largest)
        self.gold = str(sum(_is_prime(n) for n in range(self.below)))
        return f"How many primes are there below {self.below}?"

    def step(self, action: str) -> StepResult:
        code = CODE.search(action)
        if code is None or self.n_cells_left == 0:
            verdict = self.context.verify(action, self.gold, AnswerForm.TAG).wait()
            return StepResult(reward=float(verdict is Verdict.EQUAL), done=True)
        self.n_cells_left -= 1
        result = self.context.python(code[1], sandbox=self.sandbox).wait()
        note = "" if result.status in (CellStatus.OK, CellStatus.ERROR) else f"[{result.status}]"
        return StepResult(f"{result.output}{note}" or "[it printed nothing]")

    def demonstrate(self, rng: random.Random) -> str:
        return f"<answer>{self.gold}</answer>"


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))
