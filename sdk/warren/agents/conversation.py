"""What an agent asks and what it is answered, in no dialect: every surface is read into this and told from it."""

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from warren.environment import PromptTokens, Sampled
from warren_schemas.chat.tool_formats import Tool
from warren_schemas.chat.tools_in_chat import Called, as_words, with_tools
from warren_schemas.images import Image
from warren_schemas.transcript import ChatMessage

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an agent's history."""

    role: Role
    text: str
    images: tuple[Image, ...] = ()
    calls: tuple[Called, ...] = ()
    """Of the role assistant: the tools that it called."""

    @property
    def key(self) -> str:
        """Equal for messages that say the same: clients write calls and blank ends in their own ways."""
        calls = [[call.name, _value(call.arguments)] for call in self.calls]
        written = json.dumps(calls, sort_keys=True) if calls else ""
        images = [image.base64 for image in self.images]
        text = self.text.strip() if self.role == "assistant" else self.text
        return repr((self.role, text, images, written))

    @property
    def shown(self) -> ChatMessage:
        """As the policy is shown it."""
        is_quoted = self.role == "assistant"
        words = as_words(self.text, self.calls)
        return ChatMessage(role=self.role, content=words, images=self.images, is_quoted=is_quoted)


@dataclass(frozen=True, slots=True)
class Question:
    """One call of the model: the policy is to say what follows."""

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    ids: Sequence[int] = ()
    """The whole prompt in tokens, where it was asked in those and not in messages."""

    @property
    def tool_names(self) -> set[str]:
        return {tool.name for tool in self.tools}

    def shown(self, n_known: int) -> Sequence[ChatMessage] | PromptTokens:
        """What the policy hasn't seen, after it saw so many of the messages or tokens. Tools are told at the start."""
        if self.ids:
            return PromptTokens(self.ids[n_known:])
        new = [message.shown for message in self.messages[n_known:]]
        return new if n_known else with_tools(new, self.tools)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the policy said, the tokens of it, and where in the episode that was."""

    turn: int
    """Number of the action, counted from 1."""
    said: Message
    sampled: Sampled = field(default_factory=Sampled)

    def call_id(self, number: int) -> str:
        """The same whenever the episode is played again."""
        return f"call_{self.turn}_{number}"

    @property
    def ids_of_calls(self) -> Sequence[str]:
        return [self.call_id(number) for number in range(len(self.said.calls))]


def packed(sampled: Sampled) -> Sampled:
    """The same in a ninth of the memory: answers are remembered."""
    return Sampled(
        is_cut=sampled.is_cut,
        prompt_ids=array("i", sampled.prompt_ids),
        ids=array("i", sampled.ids),
        logprobs=array("d", sampled.logprobs),
        versions=array("i", sampled.versions),
    )


def _value(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments
