"""The base of every schema: frozen, closed to unknown keys, without NaN or infinity."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from warren_schemas.fields.meanings import meanings

EntryT = TypeVar("EntryT")

Listed = Annotated[tuple[EntryT, ...], Field(fail_fast=True)]
"""A list in what people send: reading ends with its first bad entry. A body of 1 MiB may hold half a
million of them, and pydantic lets no other thread run until it has refused the last."""

QueuePartRule = Field(min_length=1, max_length=128, pattern=r"^[!-~]+$")
QueuePart = Annotated[str, QueuePartRule]
"""What becomes part of a queue's name: a broker takes no name over 255 bytes, and none with a NUL."""


class Frozen(BaseModel):
    """An immutable value that refuses unknown keys and non-finite numbers."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler, /
    ) -> JsonSchemaValue:
        """With what the docstrings under the fields say."""
        schema = handler(core_schema)
        fields: dict[str, JsonSchemaValue] = handler.resolve_ref_schema(schema).get(
            "properties", {}
        )
        texts = meanings(cls)
        for name in fields.keys() & texts.keys():
            fields[name].setdefault("description", texts[name])
        return schema
