"""The envelope that every item of every message carries, and the base of all items."""

from typing import Annotated, ClassVar, Unpack

from pydantic import ConfigDict, Field

from warren_schemas.base import Frozen, QueuePartRule
from warren_schemas.ids import EpisodeId, MessageId, RunId, new_message_id


class Envelope(Frozen):
    """Who this item belongs to and how long it matters.

    `id` stays the same when an item is published again, so that a consumer can tell a duplicate.
    `attempt` fences: an item of an older attempt of the same episode is ignored by everyone.
    """

    id: MessageId = Field(default_factory=new_message_id)
    run: Annotated[RunId, QueuePartRule] | None = None
    episode: EpisodeId | None = None
    attempt: int = Field(default=1, ge=1)
    deadline_s: float | None = None
    """Unix time after which nobody needs the answer any more."""
    traceparent: str | None = None
    """W3C trace context."""


class Item(Frozen):
    """One independent, idempotent unit of work; a message carries 1 to 64 items of one kind.

    Every subclass is a kind: one without a wire name or a version of its own fails when it is imported.
    """

    kind: ClassVar[str]
    """Wire name, for example `generate`; together with `schema_version` it names the schema."""
    schema_version: ClassVar[int]

    envelope: Envelope

    def __init_subclass__(cls, **options: Unpack[ConfigDict]) -> None:
        super().__init_subclass__(**options)
        for name in ("kind", "schema_version"):
            if name not in vars(cls):
                raise TypeError(
                    f"{cls.__name__} is a kind of message and needs a {name} of its own"
                )
