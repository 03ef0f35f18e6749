"""A taskset of verifiers' v1 API with a tool server for each episode."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import verifiers.v1 as vf

__all__ = ["Shopping"]


class Prices(vf.Toolset[vf.ToolsetConfig, vf.State]):
    @vf.tool
    async def price(self, article: str) -> str:
        """The price of an article."""
        return str(len(article))


class Purchase(vf.Task[vf.TaskData, vf.State, vf.TaskConfig]):
    @classmethod
    def toolsets(cls, config):
        return [Prices(vf.ToolsetConfig())]

    @vf.reward
    async def right(self, trace) -> float:
        return float("3" in (trace.last_reply or ""))


class Shopping(vf.Taskset[Purchase, vf.TasksetConfig]):
    def load(self):
        yield Purchase(vf.TaskData(prompt="What is tea?"), self.config.task)


if __name__ == "__main__":
    Prices.run()
