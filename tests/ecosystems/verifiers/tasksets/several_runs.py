"""A taskset of verifiers' v1 API whose episodes run their one agent twice, to compare the two."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import verifiers.v1 as vf

__all__ = ["SeveralRuns", "SeveralRunsEnv"]


class SeveralRuns(vf.Taskset[vf.Task, vf.TasksetConfig]):
    def load(self):
        yield vf.Task(vf.TaskData(prompt="heads or tails?"), self.config.task)


class Config(vf.EnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig()


class SeveralRunsEnv(vf.Env[Config]):
    async def run(self, task, agents):
        for _ in range(2):
            await agents.agent.run(task)
