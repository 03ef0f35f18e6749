"""What is asked: chats and plain texts."""

import base64
from typing import Annotated, Literal, Self

import orjson
from pydantic import Field, JsonValue, field_validator, model_validator

from warren_schemas.base import Frozen, Listed
from warren_schemas.config import NonNegativeInt, PositiveInt
from warren_schemas.config.sampling import MinP, RepetitionPenalty, TopP
from warren_schemas.images import Image

MAX_ANSWERS = 64
"""Most answers to one request."""

Words = Annotated[str, Field(min_length=1)]
Temperature = Annotated[float, Field(ge=0, le=2)]
TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
TokenIds = Annotated[Listed[TokenId], Field(min_length=1)]
LogprobsOfText = Annotated[int, Field(ge=0, le=1)]
FunctionName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]


class TextPart(Frozen):
    type: Literal["text"]
    text: str


class ImageUrl(Frozen):
    url: str
    """`data:image/png;base64,…` (or jpeg, webp). Nothing is fetched from anywhere."""
    detail: Literal["auto"] | None = None
    """The model's own processor chooses the resolution."""

    @field_validator("url")
    @classmethod
    def _holds_an_image(cls, url: str) -> str:
        image_of(url)
        return url


class ImagePart(Frozen):
    type: Literal["image_url"]
    image_url: ImageUrl


def image_of(url: str) -> Image:
    """The image in a data URL. Raises `ValueError` for other URLs and other files."""
    head, comma, data = url.partition(",")
    if not head.startswith("data:"):
        raise ValueError("expected a data: URL with the image itself; other URLs are not fetched")
    if not comma or not head.endswith(";base64"):
        raise ValueError("expected a data: URL in base64, as in data:image/png;base64,iVBORw0…")
    return Image.of(_decoded(data))


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError as error:
        raise ValueError(f"what follows the comma is not base64: {error}") from error


class FunctionCall(Frozen):
    name: FunctionName
    arguments: str
    """A JSON object as text."""

    @field_validator("arguments")
    @classmethod
    def _is_an_object(cls, text: str) -> str:
        if not _holds_object(text):
            raise ValueError("expected a JSON object as text")
        return text


def _holds_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


Part = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class ToolCall(Frozen):
    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class AskedMessage(Frozen):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    """`developer` is `system`."""
    content: str | Listed[Part] | None = None
    """Images come before the text of their message, wherever they stand among its parts."""
    tool_calls: Listed[ToolCall] | None = None
    """Of an assistant's message: what it called."""
    tool_call_id: str | None = None
    """Of a tool's message: the call that it answers. Results are shown in the order of the messages."""

    @property
    def text(self) -> str:
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "".join(part.text for part in self.content if isinstance(part, TextPart))

    @property
    def images(self) -> tuple[Image, ...]:
        if self.content is None or isinstance(self.content, str):
            return ()
        shown = (part for part in self.content if isinstance(part, ImagePart))
        return tuple(image_of(part.image_url.url) for part in shown)

    @model_validator(mode="after")
    def _calls_are_an_assistants(self) -> Self:
        if self.tool_calls and self.role != "assistant":
            raise ValueError("tool_calls belong to messages of the role assistant")
        return self

    @model_validator(mode="after")
    def _no_assistant_draws(self) -> Self:
        if self.images and self.role == "assistant":
            raise ValueError("images belong to messages of other roles than assistant")
        return self


class FunctionSpec(Frozen):
    name: FunctionName
    description: str | None = None
    parameters: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    """JSON schema of the arguments."""
    strict: Literal[False] | None = None
    """Nothing forces a policy to keep to the schema."""


class ToolSpec(Frozen):
    type: Literal["function"]
    function: FunctionSpec


class StreamOptions(Frozen):
    include_usage: bool = False
    """Send a last chunk with the number of tokens."""


class SamplingRequest(Frozen):
    """What chats and plain texts have in common."""

    model: Words
    """A base model, `RUN` for a run's newest policy, or `RUN@VERSION` for one that stays."""
    n: Annotated[int, Field(ge=1, le=MAX_ANSWERS)] = 1
    temperature: Temperature | None = None
    """Null: 1."""
    top_p: TopP | None = None
    """Null: 1."""
    top_k: NonNegativeInt = 0
    """0 is off."""
    min_p: MinP = 0.0
    repetition_penalty: RepetitionPenalty = 1.0
    stop: Words | Listed[Words] | None = None
    stream: bool = False
    """Answer by server-sent events: each answer when it is finished, not token by token."""
    stream_options: StreamOptions | None = None
    return_token_ids: bool = False
    """Add the token ids of prompt and answers, and the version that made each token."""
    user: str | None = None
    """Kept by nobody; here because clients send it."""


class ChatRequest(SamplingRequest):
    messages: Annotated[Listed[AskedMessage], Field(min_length=1)]
    max_tokens: PositiveInt | None = None
    """Most tokens of an answer; null: as many as the context holds."""
    max_completion_tokens: PositiveInt | None = None
    """The newer name of `max_tokens`; it wins."""
    logprobs: bool | None = None
    """Add the logprob of each token, of the distribution that it was drawn from."""
    tools: Listed[ToolSpec] | None = None
    """The policy is told of these in the system message, as by a `ToolEnv` in the format `hermes`."""
    tool_choice: Literal["auto", "none"] | None = None
    """`none`: don't tell of the tools. Nobody can force a call."""
    thinking: bool | None = None
    """Handed to the chat template as `enable_thinking`; null leaves it to the template."""


class CompletionRequest(SamplingRequest):
    prompt: Words | TokenIds
    """A text, or token ids. No chat template is applied."""
    max_tokens: PositiveInt = 16
    """Most tokens of an answer."""
    logprobs: LogprobsOfText | None = None
    """0 or 1: add the logprob of each sampled token. There are none of other tokens."""
