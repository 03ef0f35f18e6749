"""The safetensors files of a base model: their headers, held against the files' sizes and the config.

Invariant: all tensors of the config are there, each once, of its shape, and no others.
"""

from collections.abc import Mapping
from math import prod
from typing import Annotated, Literal, cast

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from warren_schemas.base import Frozen
from warren_schemas.base_models.config import HEAD, BaseModelConfig, Shapes, read_json
from warren_schemas.base_models.files import INDEX_FILE, MAX_MODEL_BYTES, BadBaseModel
from warren_schemas.base_models.safetensors_header import (
    BadTensors,
    Placed,
    Readable,
    check_places,
    read_header,
)
from warren_schemas.text.explain import explain

_Dimension = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Place = Annotated[int, Field(ge=0, le=MAX_MODEL_BYTES)]


class _Tensor(Frozen):
    dtype: Literal["F32", "F16", "BF16"]
    shape: Annotated[tuple[_Dimension, ...], Field(min_length=1, max_length=2)]
    data_offsets: tuple[_Place, _Place]


_HEADER: TypeAdapter[dict[str, _Tensor]] = TypeAdapter(dict[str, _Tensor])


class Weights:
    """What the files have told so far."""

    def __init__(self, config: BaseModelConfig) -> None:
        self._config = config
        self._left: Shapes = config.shapes()
        self._file_of: dict[str, str] = {}
        self.n_parameters = 0

    def add(self, name: str, file: Readable, size_bytes: int) -> None:
        """A file, from its beginning; no more than its header is read. Raises `BadBaseModel`."""
        try:
            header = read_header(file, size_bytes, name)
            tensors = _read_tensors(name, header.tensors)
            for tensor, found in tensors.items():
                self._take(name, tensor, found)
            in_order = sorted(tensors.items(), key=lambda pair: pair[1].data_offsets)
            placed = (Placed(key, one.dtype, one.shape, *one.data_offsets) for key, one in in_order)
            check_places(placed, header.rest_bytes, name)
        except BadTensors as error:
            raise BadBaseModel(str(error)) from error

    def _take(self, name: str, tensor: str, found: _Tensor) -> None:
        if (other := self._file_of.get(tensor)) is not None:
            raise BadBaseModel(f"{name}: {tensor[:200]} is in {other} already")
        if (expected := self._left.pop(tensor, None)) is None:
            raise BadBaseModel(
                f"{name}: {tensor[:200]} is no tensor of {self._config.architecture} as config.json has it"
            )
        if found.shape != expected:
            raise BadBaseModel(
                f"{name}: {tensor} has the shape {list(found.shape)}, and by config.json {list(expected)}"
            )
        self._file_of[tensor] = name
        self.n_parameters += prod(found.shape)

    def check_whole(self) -> None:
        """Once all files were added. Raises `BadBaseModel`."""
        missing = [name for name in self._left if name != HEAD]
        if HEAD in self._left and not self._config.tie_word_embeddings:
            missing.append(HEAD)
        if missing:
            raise BadBaseModel(
                f"{len(missing)} tensors are missing that config.json says there are, for example {missing[0]}"
            )

    def check_index(self, text: bytes) -> None:
        """Once all files were added. Raises `BadBaseModel`."""
        fields = read_json(INDEX_FILE, text)
        told = fields.get("weight_map") if isinstance(fields, dict) else None
        if not isinstance(told, dict) or cast("Mapping[str, object]", told) != self._file_of:
            raise BadBaseModel(f"{INDEX_FILE}: weight_map is not where the tensors lie")


def _read_tensors(name: str, header: dict[str, object]) -> dict[str, _Tensor]:
    try:
        tensors = _HEADER.validate_json(orjson.dumps(header), strict=True)
    except (ValidationError, orjson.JSONEncodeError) as error:
        lines = explain(error)[:3] if isinstance(error, ValidationError) else [str(error)]
        raise BadBaseModel(f"{name}: {'; '.join(lines)}") from error
    if not tensors:
        raise BadBaseModel(f"{name} holds no tensors")
    return tensors
