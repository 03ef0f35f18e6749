"""Rows that are texts to be learned: chat messages, or a prompt and its completion.

A row of messages is `{"messages": [{"role": "user", "content": "…"}, …]}`. A prompt and its completion are either
two texts, which are laid end to end without a chat template, or two lists of messages. Other columns may stand
beside these.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from warren_schemas.base import Frozen
from warren_schemas.transcript import ChatMessage

ROLES = ("system", "user", "assistant", "tool")


class BadRow(ValueError):
    """A row is not what it should be; says why."""


class Conversation(Frozen):
    """What is learned from."""

    messages: tuple[ChatMessage, ...]
    n_prompt: int = 0
    """So many messages at the beginning are never learned, whatever their role."""
    is_plain: bool = False
    """The texts are laid end to end; no chat template is applied."""

    def learned(self, roles: Sequence[str]) -> tuple[int, ...]:
        """The messages that are learned, of a chat those of these roles."""
        return tuple(
            i
            for i, message in enumerate(self.messages)
            if i >= self.n_prompt and (self.is_plain or message.role in roles)
        )


def of_messages(row: Mapping[str, object]) -> Conversation:
    """Raises `BadRow`."""
    return Conversation(messages=_messages(row, "messages"))


def of_prompt_and_completion(row: Mapping[str, object]) -> Conversation:
    """Raises `BadRow`."""
    prompt, completion = row.get("prompt"), row.get("completion")
    if isinstance(prompt, str) and isinstance(completion, str):
        if not completion:
            raise BadRow("completion is empty")
        texts = (_said("user", prompt), _said("assistant", completion))
        return Conversation(messages=texts, n_prompt=1, is_plain=True)
    if isinstance(prompt, str) or isinstance(completion, str):
        raise BadRow("prompt and completion must both be texts, or both lists of messages")
    before, after = _messages(row, "prompt"), _messages(row, "completion")
    return Conversation(messages=(*before, *after), n_prompt=len(before))


def prompt_of(row: Mapping[str, object]) -> tuple[ChatMessage, ...]:
    """What a policy is asked by a row of any kind that has a prompt or messages. Raises `BadRow`."""
    if "messages" in row:
        messages = _messages(row, "messages")
    elif isinstance(prompt := row.get("prompt"), str):
        if not prompt:
            raise BadRow("prompt is empty")
        messages = (_said("user", prompt),)
    else:
        messages = _messages(row, "prompt")
    while messages and messages[-1].role == "assistant":
        messages = messages[:-1]
    if not messages:
        raise BadRow("it has nothing but answers, so nothing to ask")
    if any(message.role == "assistant" for message in messages):
        raise BadRow("it has answers of an assistant between its questions; ask one at a time")
    return messages


def _messages(row: Mapping[str, object], key: str) -> tuple[ChatMessage, ...]:
    if key not in row:
        raise BadRow(f"it has no {key}")
    listed = row[key]
    if not isinstance(listed, list) or not listed:
        raise BadRow(f"{key} must be a list of messages, with at least one")
    each = enumerate(cast("list[object]", listed))
    return tuple(_message(message, f"{key}.{i}") for i, message in each)


def _message(message: object, where: str) -> ChatMessage:
    if not isinstance(message, Mapping):
        raise BadRow(f"{where} must be an object with role and content")
    fields = cast("Mapping[object, object]", message)
    role, content = fields.get("role"), fields.get("content")
    if role not in ROLES:
        raise BadRow(f"{where}.role must be one of {', '.join(ROLES)}")
    if not isinstance(content, str):
        raise BadRow(f"{where}.content must be a text")
    if unknown := sorted(str(key) for key in fields if key not in ("role", "content")):
        raise BadRow(f"{where} has {unknown[0]}, which would have no effect; leave it out")
    return _said(str(role), content)


def _said(role: str, content: str) -> ChatMessage:
    """Nothing is validated again."""
    return ChatMessage.model_construct(role=role, content=content, images=())  # pyright: ignore[reportArgumentType]
