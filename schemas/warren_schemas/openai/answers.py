"""What is answered: whole, in chunks, or with an error."""

from typing import Literal

from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt
from warren_schemas.openai.requests import ToolCall

FinishedBy = Literal["stop", "length", "tool_calls"]


class TokenLogprob(Frozen):
    token: str
    """`token_id:<id>`."""
    logprob: float
    """Natural, of the distribution that the token was drawn from."""
    bytes: tuple[int, ...] | None = None
    top_logprobs: tuple[()] = ()


class ChatLogprobs(Frozen):
    content: tuple[TokenLogprob, ...]


class ChatMessageAnswer(Frozen):
    role: Literal["assistant"] = "assistant"
    content: str | None
    """Null where the policy only called tools."""
    tool_calls: tuple[ToolCall, ...] | None = None


class ChatChoice(Frozen):
    index: NonNegativeInt
    message: ChatMessageAnswer
    finish_reason: FinishedBy
    logprobs: ChatLogprobs | None = None
    token_ids: tuple[int, ...] | None = None
    versions: tuple[int, ...] | None = None
    """Of the policy, one for each token."""


class Usage(Frozen):
    prompt_tokens: NonNegativeInt
    completion_tokens: NonNegativeInt
    total_tokens: NonNegativeInt


class ChatCompletion(Frozen):
    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: NonNegativeInt
    model: str
    choices: tuple[ChatChoice, ...]
    usage: Usage
    prompt_token_ids: tuple[int, ...] | None = None


class CalledInChunk(ToolCall):
    index: NonNegativeInt


class Delta(Frozen):
    role: Literal["assistant"] = "assistant"
    content: str | None = None
    tool_calls: tuple[CalledInChunk, ...] | None = None


class ChatChunkChoice(Frozen):
    index: NonNegativeInt
    delta: Delta
    finish_reason: FinishedBy
    logprobs: ChatLogprobs | None = None
    token_ids: tuple[int, ...] | None = None
    versions: tuple[int, ...] | None = None


class ChatChunk(Frozen):
    """One answer, whole."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: NonNegativeInt
    model: str
    choices: tuple[ChatChunkChoice, ...] = ()
    usage: Usage | None = None
    prompt_token_ids: tuple[int, ...] | None = None


class TextLogprobs(Frozen):
    tokens: tuple[str, ...]
    token_logprobs: tuple[float, ...]
    top_logprobs: None = None
    text_offset: None = None


class TextChoice(Frozen):
    index: NonNegativeInt
    text: str
    finish_reason: FinishedBy
    logprobs: TextLogprobs | None = None
    token_ids: tuple[int, ...] | None = None
    versions: tuple[int, ...] | None = None


class TextCompletion(Frozen):
    """The whole, or in a stream one answer of it, or its usage."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: NonNegativeInt
    model: str
    choices: tuple[TextChoice, ...] = ()
    usage: Usage | None = None
    prompt_token_ids: tuple[int, ...] | None = None


class ServedModel(Frozen):
    id: str
    object: Literal["model"] = "model"
    created: NonNegativeInt = 0
    owned_by: str


class ServedModels(Frozen):
    object: Literal["list"] = "list"
    data: tuple[ServedModel, ...]


class OpenAIProblem(Frozen):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAIError(Frozen):
    error: OpenAIProblem
