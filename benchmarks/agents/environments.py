"""One game twice: played by an agent from outside, and by an environment itself."""

from benchmarks.agents.clients import N_TURNS, Errand, sent

from warren import Agent, AgentEnv, Env, StepResult
from warren.environment import Context


class Asking(AgentEnv):
    """An agent that says one thing again and again, behind a first prompt, from the process of the agents."""

    isolation = "shared"

    def __init__(self, socket: str, dialect: str, n_chars: int) -> None:
        self.socket, self.dialect, self.n_chars = socket, dialect, n_chars

    async def run(self, task: None, agent: Agent) -> float:
        errand = Errand(
            dialect=self.dialect,
            n_chars=self.n_chars,
            base_url=agent.base_url,
            root_url=agent.root_url,
            api_key=agent.api_key,
        )
        await sent(self.socket, errand)
        return 1.0


class Native(Env):
    """The same without an agent."""

    isolation = "shared"

    def __init__(self, n_chars: int) -> None:
        self.prompt = "?" * n_chars

    def reset(self, task: None, ctx: Context) -> str:
        self.n_left = N_TURNS
        return self.prompt

    def step(self, action: str) -> StepResult:
        self.n_left -= 1
        return StepResult("?") if self.n_left else StepResult(reward=1.0, done=True)
