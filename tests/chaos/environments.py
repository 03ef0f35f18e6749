"""The environment of chaos runs: a walk that waits at every step and can be rebuilt anywhere."""

import asyncio
import hashlib
import math
import os
from pathlib import Path

from warren.environment import Context, Env, Limits, StepResult


def at_gate(gate: Path) -> dict[int, set[tuple[int, int]]]:
    """Task and member of each episode that stood at this gate, by the process of its env worker."""
    files = {int(path.name.rpartition("-")[2]): path for path in gate.parent.glob(f"{gate.name}-*")}
    return {pid: set(map(_place, path.read_text().splitlines())) for pid, path in files.items()}


def _place(line: str) -> tuple[int, int]:
    task, member = line.split()
    return int(task), int(member)


class Walk(Env):
    """Shows a digest of all that was said so far; the reward comes at the end.

    A step takes `step_s` in the median; with `spread` above 0 its time is log-normal, drawn from the
    member's own numbers. The step after `gate_turn` turns waits until the file `gate` is there. The
    reward is 1 if the last action is `good`, else a chance of the digest.
    """

    name = "walk"
    limits = Limits(reset_s=60.0, step_s=300.0)

    def __init__(
        self,
        n_turns: int = 4,
        step_s: float = 0.1,
        spread: float = 0.0,
        gate: str | None = None,
        gate_turn: int = 0,
    ) -> None:
        self.n_turns = n_turns
        self.step_s = step_s
        self.spread = spread
        self.gate = Path(gate) if gate else None
        self.gate_turn = gate_turn
        self.n_taken = 0

    async def reset(self, task: None, ctx: Context) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        self.ctx = ctx
        self.state = hashlib.blake2b(str(ctx.seed).encode(), digest_size=8)
        await asyncio.sleep(0)
        return self.state.hexdigest()

    async def step(self, action: str) -> StepResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        await asyncio.sleep(self.step_s * math.exp(self.spread * self.ctx.member_rng.gauss(0, 1)))
        if self.gate is not None and self.n_taken == self.gate_turn:
            await self._pass(self.gate)
        self.n_taken += 1
        self.state.update(action.encode())
        digest = self.state.hexdigest()
        done = self.n_taken >= self.n_turns
        reward = 1.0 if action == "good" else int(digest[:4], 16) / 0xFFFF / 2
        return StepResult(observation=digest, reward=reward if done else None, done=done)

    async def _pass(self, gate: Path) -> None:
        """Write down that we stand there, and wait until it is open."""
        with Path(f"{gate}-{os.getppid()}").open("a") as standing:  # noqa: ASYNC230 - a line
            standing.write(f"{self.ctx.index} {self.ctx.member}\n")
        while not gate.exists():  # noqa: ASYNC110, ASYNC240 - the test is another process
            await asyncio.sleep(self.step_s)


class Unrepeatable(Walk):
    """The same, but it says that it can't be rebuilt."""

    name = "unrepeatable"
    replayable = False


class Stroll(Walk):
    """The same under another name, so that other workers host it."""

    name = "stroll"
