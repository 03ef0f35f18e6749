"""The conversation of the first task of the tasksets here, as an environment of ours."""

from warren import Env, StepResult
from warren.environment import ChatMessage, Context


class Native(Env[None]):
    name = "native"

    def reset(self, task: None, ctx: Context) -> list[ChatMessage]:
        self.shown = [StepResult("and 0?"), StepResult(reward=4.0, done=True)]
        return [
            ChatMessage(role="system", content="guess:"),
            ChatMessage(role="user", content="0?"),
        ]

    def step(self, action: str) -> StepResult:
        return self.shown.pop(0)
