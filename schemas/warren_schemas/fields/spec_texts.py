"""Specs in messages: each text once, checked once.

A spec is the same in all messages of its episode. So a message carries it as a text of its own, which
tells what differs from the defaults, an item holds the number of that text, and both ends remember what
they have written or read: from an episode's second message on a spec costs a look into a table.

Invariant: the same text is the same spec. Nobody writes into a spec, or into what it holds.
"""

from collections import OrderedDict
from typing import Generic, TypeVar, cast

import orjson
from pydantic import BaseModel, GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from warren_schemas.fields.message_texts import text_at
from warren_schemas.fields.non_defaults import non_defaults

MAX_REMEMBERED = 4096
MAX_REMEMBERED_BYTES = 4096
"""A longer text is read and written anew each time."""

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class _Memory(OrderedDict[KeyT, ValueT], Generic[KeyT, ValueT]):
    """Forgets what was learnt first."""

    def learn(self, key: KeyT, value: ValueT) -> None:
        self[key] = value
        if len(self) > MAX_REMEMBERED:
            self.popitem(last=False)


_read: _Memory[tuple[type[BaseModel], bytes], BaseModel] = _Memory()
_written: _Memory[int, tuple[BaseModel, bytes]] = _Memory()
"""By the identity of the spec, which is kept alive here so that it stays its own."""


def text_of(spec: BaseModel) -> bytes:
    """The spec as JSON, without what is at its default."""
    found = _written.get(id(spec))
    if found is not None:
        return found[1]
    text = orjson.dumps(spec, default=non_defaults)
    if len(text) <= MAX_REMEMBERED_BYTES:
        _written.learn(id(spec), (spec, text))
    return text


def spec_of(schema: type[BaseModel], text: bytes) -> BaseModel:
    """The spec that a text stands for. Raises `ValidationError`."""
    found = _read.get((schema, text))
    if found is not None:
        return found
    spec = schema.model_validate_json(text, strict=True)
    if len(text) <= MAX_REMEMBERED_BYTES:
        _read.learn((schema, text), spec)
        _written.learn(id(spec), (spec, text))
    return spec


class NumberedInMessages:
    """Marks a field that holds, in a message, the number of a text (the context has the texts)."""

    def __get_pydantic_core_schema__(
        self, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def spec_at(number: int, info: ValidationInfo) -> BaseModel:
            return spec_of(source, text_at(number, info))

        whole = handler(source)
        number = core_schema.int_schema(strict=True, ge=0)
        numbered = core_schema.with_info_after_validator_function(spec_at, number)
        either = core_schema.union_schema(
            [(numbered, "[number]"), (whole, "[whole]")], mode="left_to_right"
        )
        return core_schema.json_or_python_schema(json_schema=either, python_schema=whole)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """That of a spec: the numbers are an affair of the wire."""
        return handler(cast("core_schema.JsonOrPythonSchema", schema)["python_schema"])
