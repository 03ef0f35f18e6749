"""Answer prompts of a data set: one turn, and nothing is judged.

For inference over a file of prompts: a run of this environment alone records every answer. The reward is 0 for each, and says
nothing. A row has `messages` (answers at their end are left out), or `prompt`: a text, or a list of messages. `category` is told
with the answers.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from warren.environment import ChatMessage, ConfigError, Context, Env, StepResult, TaskError
from warren_schemas.datasets.conversations import BadRow, prompt_of
from warren_schemas.transcript import MAX_CATEGORY_CHARS


class Prompt(NamedTuple):
    messages: tuple[ChatMessage, ...]
    category: str | None


class Prompts(Env[Prompt]):
    name = "prompts"
    version = "1"
    isolation = "shared"

    def __init__(self, system_prompt: str | None = None) -> None:
        """`system_prompt` goes before each prompt, and before the system message of the row if it has one."""
        self.preface = system_prompt

    def tasks(self, split: str) -> Sequence[Prompt]:
        raise ConfigError("prompts come from a data set: name one as `dataset` of the environment")

    def task_of(self, row: Mapping[str, Any]) -> Prompt:
        try:
            messages = prompt_of(row)
        except BadRow as error:
            raise TaskError(str(error)) from error
        category = row.get("category")
        named = category[:MAX_CATEGORY_CHARS] if isinstance(category, str) else None
        return Prompt(messages, named or None)

    def reset(self, task: Prompt, ctx: Context) -> Sequence[ChatMessage]:
        self.prompt, self.category = task, task.category
        return [message for message in task.messages if message.role != "system"]

    def system_prompt(self) -> str | None:
        """Ours and the row's, in one message: not every model takes two."""
        given = [m.content for m in self.prompt.messages if m.role == "system"]
        return "\n\n".join([self.preface, *given] if self.preface else given) or None

    def step(self, action: str) -> StepResult:
        return StepResult(reward=0.0, done=True)
