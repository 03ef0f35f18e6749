"""Agents that are programs: a command line, with the model's address and key among its variables.

    class Shell(warren.CommandAgent):
        name = "shell"
        command = ("bash", "agent.sh")
        box = warren.Box(memory_mib=512)

The program finds in its variables `OPENAI_BASE_URL`, `OPENAI_API_KEY`, `ANTHROPIC_BASE_URL`, `ANTHROPIC_API_KEY`,
`WARREN_MODEL`, `WARREN_TASK` (as JSON), `WARREN_SEED` and `WARREN_REWARD`: the path of a file where it may write the
reward, a number. Its exit code must be 0. Without a reward from there, `score` may judge; it finds what was printed in
`self.output`.

Without a box it runs with the rights of its worker (`warren.agents.box`). Invariants: under a policy that names one,
no program runs without a box or in a larger one; when the episode has ended, or its worker has died, nothing is left
of the program and of what it started (`warren.agents.subreaper`, `warren.agents.box.inside`). The episode ends with
the program, and does not wait for what that leaves in the background.
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
from warren.agents.output import read_output
from warren.environment import TaskT
from warren_schemas.isolation.agent_box import Box

SUBREAPER = Path(__file__).with_name("subreaper.py")
_SHOWN_CHARS = 200


class CommandAgent(AgentEnv[TaskT], ABC, Generic[TaskT]):
    """A program that is played as an environment: say its `command`."""

    command: ClassVar[tuple[str, ...]] = ()
    """It runs in the env worker's folder, or in `folder`."""
    folder: ClassVar[str | None] = None
    box: ClassVar[Box | None] = None
    """Isolates the program and limits what it uses. None: it has the rights of the env worker, unless the
    operator's policy has a box for every agent."""
    output: str = ""
    """What it printed to standard output, cut to 1 MiB; what it printed to standard error goes to the log."""

    async def run(self, task: TaskT, agent: Agent) -> float | None:
        if not self.command:
            raise AgentFailed(f"{type(self).__name__} names no command")
        from warren.agents.box.offering import granted

        box = granted(self.box, agent.context.max_box)
        variables = self.variables(task, agent)
        reward = await (self._free(variables) if box is None else self._boxed(box, variables))
        return None if reward is None else _number(reward)

    def variables(self, task: TaskT, agent: Agent) -> dict[str, str]:
        """What the program finds in its environment beside what this process has, or beside the usual variables in a
        box; add to it as you like."""
        return {
            "OPENAI_BASE_URL": agent.base_url,
            "OPENAI_API_KEY": agent.api_key,
            "ANTHROPIC_BASE_URL": agent.root_url,
            "ANTHROPIC_API_KEY": agent.api_key,
            "WARREN_MODEL": agent.model,
            "WARREN_TASK": json.dumps(task, default=str),
            "WARREN_SEED": str(agent.context.seed),
        }

    async def _boxed(self, box: Box, variables: dict[str, str]) -> str | None:
        """What it wrote as its reward. Raises `AgentFailed`, and `ConfigError` for a folder that it must not see."""
        from warren.agents.box.offering import shown_folder
        from warren.agents.box.program import played, said
        from warren.agents.endpoint import endpoint
        from warren.isolation.errors import CannotIsolate

        try:
            folder = shown_folder(self.folder)
            ended = await played(self.command, box, folder, variables, await endpoint())
        except CannotIsolate as error:
            raise AgentFailed(f"{self.command[0]} can't be put into a box: {error}") from error
        self.output = ended.output
        if why := said(ended, box, self.command[0]):
            raise AgentFailed(why)
        assert ended.report is not None
        self._require_success(ended.report.status)
        return ended.report.reward

    async def _free(self, variables: dict[str, str]) -> str | None:
        """What it wrote as its reward. Raises `AgentFailed`."""
        with tempfile.TemporaryDirectory(prefix="warren-agent-") as folder:
            reward = Path(folder) / "reward"
            await self._run({**os.environ, **variables, "WARREN_REWARD": str(reward)})
            return reward.read_text(errors="replace") if reward.exists() else None

    async def _run(self, variables: dict[str, str]) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(SUBREAPER), *self.command),
            cwd=self.folder,
            env=variables,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            self.output = await read_output(process.stdout)
            code = await process.wait()
        finally:
            process.stdin.close()
            await process.wait()
        self._require_success(code)

    def _require_success(self, code: int) -> None:
        if code != 0:
            said = " ".join(self.output.split())[-_SHOWN_CHARS:]
            raise AgentFailed(f"{self.command[0]} ended with exit code {code}: {said}")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise AgentFailed(f"the file WARREN_REWARD holds no number: {text[:40]!r}") from None
