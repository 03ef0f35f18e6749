"""What a server answers, checked at the border: a key that the protocol does not have is an error, for it would
have no effect."""

import hashlib
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, FiniteFloat, TypeAdapter

from warren.environment import ChatMessage, Image
from warren_schemas.base import Frozen
from warren_schemas.ids import TaskId
from warren_schemas.images import MediaType

PROTOCOL = "warren-env/1"


class Picture(Frozen):
    media_type: MediaType
    base64: str


class Message(Frozen):
    role: Literal["system", "user", "tool"] = "user"
    content: str = ""
    images: tuple[Picture, ...] = ()


class Description(Frozen):
    """What `GET /` says of the environment."""

    protocol: Literal["warren-env/1"]
    name: str
    version: str = "1"
    splits: dict[str, Annotated[int, Field(ge=0)] | None] = Field(min_length=1)
    """Number of tasks of each; null where the environment makes its own from the seed."""


class Begun(Frozen):
    """The first observation."""

    messages: tuple[Message, ...] = Field(min_length=1)
    task_id: TaskId | None = None
    category: str | None = None
    scores: bool = False
    """It wants to be asked for a score after the last turn."""
    demonstration: str | None = None
    """A legal action here, for supervised fine-tuning."""


class Stepped(Frozen):
    """What follows from an action."""

    messages: tuple[Message, ...] = ()
    reward: FiniteFloat | None = None
    """null gives no reward at this turn, which is not a reward of 0."""
    demonstration: str | None = None
    done: bool = False
    truncated: bool = False
    metrics: dict[str, FiniteFloat] = Field(default_factory=dict[str, float])


class Scored(Frozen):
    """The reward of the episode as a whole, or its named parts."""

    reward: FiniteFloat | dict[str, FiniteFloat] | None


class Failure(Frozen):
    """The body of an answer with status 4xx or 5xx, as far as the server says why."""

    model_config = ConfigDict(extra="ignore")
    error: Annotated[str, Field(max_length=2000)]


DESCRIPTION = TypeAdapter(Description)
BEGUN = TypeAdapter(Begun)
STEPPED = TypeAdapter(Stepped)
SCORED = TypeAdapter(Scored)


def digest(answer: Begun | Stepped) -> str:
    """Equal for answers that are the same to the policy and to its reward."""
    return hashlib.blake2b(answer.model_dump_json().encode(), digest_size=16).hexdigest()


def shown(messages: tuple[Message, ...]) -> list[ChatMessage]:
    return [
        ChatMessage(
            role=message.role,
            content=message.content,
            images=tuple(Image(media_type=p.media_type, base64=p.base64) for p in message.images),
        )
        for message in messages
    ]
