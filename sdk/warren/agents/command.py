"""Agents that are programs: a command line, with the model's address and key among its variables.

    class Shell(warren.CommandAgent):
        name = "shell"
        command = ("bash", "agent.sh")

The program finds in its variables `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`,
`WARREN_MODEL`, `WARREN_TASK` (as JSON), `WARREN_SEED` and `WARREN_REWARD`: the path of a file where it may write the
reward, a number. Its exit code must be 0. Without a reward from there, `score` may judge; it finds what was printed in
`self.output`.

Invariant: when the episode has ended, or its worker has died, nothing is left of the program and of what it started
(`warren.agents.subreaper`). The episode ends with the program, and does not wait for what that leaves in the background.
"""

import asyncio
import json
import os
import sys
import tempfile
from abc import ABC
from pathlib import Path
from typing import ClassVar, Generic

from warren.agents.environment import Agent, AgentEnv, AgentFailed
from warren.environment import TaskT

MAX_OUTPUT_BYTES = 1024**2
SUBREAPER = Path(__file__).with_name("subreaper.py")
_SHOWN_CHARS = 200


class CommandAgent(AgentEnv[TaskT], ABC, Generic[TaskT]):
    """A program that is played as an environment: say its `command`."""

    command: ClassVar[tuple[str, ...]] = ()
    """It runs in the env worker's folder, or in `folder`."""
    folder: ClassVar[str | None] = None
    output: str = ""
    """What it printed to standard output, cut to 1 MiB; what it printed to standard error goes to the log."""

    async def run(self, task: TaskT, agent: Agent) -> float | None:
        with tempfile.TemporaryDirectory(prefix="warren-agent-") as folder:
            reward = Path(folder) / "reward"
            await self._run(self.variables(task, agent) | {"WARREN_REWARD": str(reward)})
            return _number(reward.read_text(errors="replace")) if reward.exists() else None

    def variables(self, task: TaskT, agent: Agent) -> dict[str, str]:
        """What the program finds in its environment beside what this process has; add to it as you like."""
        return {
            "OPENAI_BASE_URL": agent.base_url,
            "OPENAI_API_KEY": agent.api_key,
            "ANTHROPIC_BASE_URL": agent.root_url,
            "ANTHROPIC_API_KEY": agent.api_key,
            "WARREN_MODEL": agent.model,
            "WARREN_TASK": json.dumps(task, default=str),
            "WARREN_SEED": str(agent.context.seed),
        }

    async def _run(self, variables: dict[str, str]) -> None:
        if not self.command:
            raise AgentFailed(f"{type(self).__name__} names no command")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(SUBREAPER), *self.command),
            cwd=self.folder,
            env={**os.environ, **variables},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            self.output = await _read(process.stdout)
            code = await process.wait()
        finally:
            process.stdin.close()
            await process.wait()
        if code != 0:
            said = " ".join(self.output.split())[-_SHOWN_CHARS:]
            raise AgentFailed(f"{self.command[0]} ended with exit code {code}: {said}")


async def _read(stream: asyncio.StreamReader) -> str:
    """All of it is taken, so that nobody waits to write; the first of it is kept."""
    kept = bytearray()
    while chunk := await stream.read(65536):
        kept += chunk[: MAX_OUTPUT_BYTES - len(kept)]
    return kept.decode(errors="replace")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise AgentFailed(f"the file WARREN_REWARD holds no number: {text[:40]!r}") from None
