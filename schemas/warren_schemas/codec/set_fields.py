"""What a user said, and nothing else: a body without the keys that nobody set.

A laptop's SDK is often newer than the gateway it talks to. Sending its own defaults would spell out
keys that the gateway has never heard of; so defaults are the gateway's to fill in, and a newer SDK
is refused only where its user asked for something that the gateway can't do.
"""

from collections.abc import Mapping
from typing import cast

import orjson
from pydantic import BaseModel

DISCRIMINATORS = frozenset({"kind", "status"})
"""They tell which variant of a union it is, so they are said even where the variant set them."""


def set_fields_json(body: BaseModel) -> bytes:
    """JSON of the fields that were set, through all levels."""
    return orjson.dumps(_set_fields(body), option=orjson.OPT_SERIALIZE_NUMPY)


def _set_fields(value: object) -> object:
    if isinstance(value, BaseModel):
        said = value.model_fields_set | (DISCRIMINATORS & type(value).model_fields.keys())
        return {name: _set_fields(getattr(value, name)) for name in sorted(said)}
    if isinstance(value, Mapping):
        return {key: _set_fields(v) for key, v in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_set_fields(v) for v in cast("list[object]", value)]
    return value
