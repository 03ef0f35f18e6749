"""A taskset of verifiers' v1 API, as its users write one: two questions; `kaput` says what goes wrong.

Told a folder it waits there to be killed, once the policy has spoken: see `once_one_waits` in tests/ecosystems/whole_run.py.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import asyncio
import os
import signal
from pathlib import Path

import verifiers.v1 as vf

__all__ = ["TwoQuestions", "TwoQuestionsEnv"]


class Data(vf.TaskData):
    second: str
    kaput: str
    waits_in: str


class Config(vf.TasksetConfig):
    n: int = 3
    second: str = "and {}?"
    kaput: str = ""
    waits_in: str = ""
    named: bool = False


class Question(vf.Task[Data, vf.State, vf.TaskConfig]):
    @vf.reward(weight=2.0)
    async def turns(self, trace) -> float:
        if self.data.kaput == "reward":
            raise RuntimeError("the reward is kaput")
        return float(trace.num_turns)

    @vf.metric
    async def letters(self, trace) -> float:
        return float(len(trace.last_reply or ""))


class TwoQuestions(vf.Taskset[Question, Config]):
    def load(self):
        for number in range(self.config.n):
            second = self.config.second.format(number)
            data = Data(
                id=f"question-{number}" if self.config.named else None,
                prompt=f"{number}?",
                system_prompt="guess:",
                second=second,
                kaput=self.config.kaput,
                waits_in=self.config.waits_in,
            )
            if self.config.kaput == "load":
                raise RuntimeError("the tasks are kaput")
            if self.config.kaput == "counting":
                os.kill(os.getpid(), signal.SIGKILL)
            yield Question(data, self.config.task)


class TwoQuestionsEnv(vf.SingleAgentEnv):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as interaction:
            await interaction.turn()
            if task.data.kaput == "process":
                os.kill(os.getpid(), signal.SIGKILL)
            if task.data.waits_in and is_to_be_killed(task.data.waits_in):
                await asyncio.Event().wait()
            await interaction.turn(task.data.second)


def is_to_be_killed(folder: str) -> bool:
    if Path(folder, "go-on").exists():
        return False
    Path(folder, str(os.getpid())).touch()
    return True
