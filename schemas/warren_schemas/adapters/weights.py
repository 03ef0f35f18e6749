"""`adapter_model.safetensors`: its header and its numbers, read without a tensor library.

The file begins with the length of its header (8 bytes, little-endian); the header is JSON, a dtype, a shape and
a place for each tensor; the numbers fill the rest.

Invariants
- Nothing is taken from the file's own word before it is held against the file's size: reading a hostile file
  takes no more memory than `MAX_HEADER_BYTES` allow.
- Only pairs of LoRA matrices of the config's rank, on the config's modules, pass, and only finite numbers.
"""

import re
from collections.abc import Collection, Mapping
from math import prod
from typing import Annotated, Literal, NamedTuple, Protocol, cast

import numpy as np
import orjson
from pydantic import Field, TypeAdapter, ValidationError

from warren_schemas.adapters.config import AdapterConfig, BadAdapter
from warren_schemas.base import Frozen
from warren_schemas.text.explain import explain

WEIGHTS_FILE = "adapter_model.safetensors"
MAX_HEADER_BYTES = 8 * 1024 * 1024
MAX_WEIGHTS_BYTES = 16 * 1024**3
_LENGTH_BYTES = 8
_READ_BYTES = 1024 * 1024
_METADATA = "__metadata__"
_NAME = re.compile(r"base_model\.model\.([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)\.lora_([AB])\.weight")
_Dimension = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Place = Annotated[int, Field(ge=0, le=MAX_WEIGHTS_BYTES)]


class _Dtype(NamedTuple):
    item_bytes: int
    exponent: int
    """The bits that are all set in what is not finite."""


_DTYPES = {
    "F32": _Dtype(4, 0x7F80_0000),
    "F16": _Dtype(2, 0x7C00),
    "BF16": _Dtype(2, 0x7F80),
}


class Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Tensor(Frozen):
    dtype: Literal["F32", "F16", "BF16"]
    shape: tuple[_Dimension, _Dimension]
    data_offsets: tuple[_Place, _Place]

    @property
    def size_bytes(self) -> int:
        return self.data_offsets[1] - self.data_offsets[0]


_HEADER: TypeAdapter[dict[str, _Tensor]] = TypeAdapter(dict[str, _Tensor])


def check_weights(file: Readable, size_bytes: int, config: AdapterConfig) -> tuple[str, ...]:
    """The last names of the modules that are adapted, sorted. Reads the file once, from its beginning.

    Raises `BadAdapter`.
    """
    tensors, rest_bytes = _read_header(file, size_bytes)
    modules = _modules(tensors, config.rank)
    _check_targets(modules, config.targets)
    in_order = sorted(tensors.items(), key=lambda pair: pair[1].data_offsets)
    _check_places(in_order, rest_bytes)
    for name, tensor in in_order:
        _check_numbers(file, name, tensor)
    return tuple(sorted({module.rpartition(".")[2] for module in modules}))


def _read_header(file: Readable, size_bytes: int) -> tuple[dict[str, _Tensor], int]:
    """The tensors by name, and how many bytes they have together."""
    length = int.from_bytes(_exactly(file, _LENGTH_BYTES), "little")
    rest_bytes = size_bytes - _LENGTH_BYTES - length
    if length > MAX_HEADER_BYTES or rest_bytes < 0:
        raise BadAdapter(
            f"{WEIGHTS_FILE} is no safetensors file: its header would have {length} bytes, of {size_bytes} in all and at"
            f" most {MAX_HEADER_BYTES}; pickled files (.bin, .pt) are not taken"
        )
    try:
        header = orjson.loads(_exactly(file, length))
    except orjson.JSONDecodeError as error:
        raise BadAdapter(
            f"{WEIGHTS_FILE} is no safetensors file: its header is not JSON ({error}); pickled files (.bin, .pt) are not"
            " taken"
        ) from error
    if not isinstance(header, dict):
        raise BadAdapter(f"{WEIGHTS_FILE} is no safetensors file: its header is no object")
    tensors = cast("dict[str, object]", header)
    tensors.pop(_METADATA, None)
    return _read_tensors(tensors), rest_bytes


def _read_tensors(header: dict[str, object]) -> dict[str, _Tensor]:
    for name in header:
        _require_half(name)
    try:
        tensors = _HEADER.validate_json(orjson.dumps(header), strict=True)
    except (ValidationError, orjson.JSONEncodeError) as error:
        lines = explain(error)[:3] if isinstance(error, ValidationError) else [str(error)]
        raise BadAdapter(f"{WEIGHTS_FILE}: {'; '.join(lines)}") from error
    if not tensors:
        raise BadAdapter(f"{WEIGHTS_FILE} holds no tensors")
    return tensors


def _require_half(name: str) -> tuple[str, str]:
    """The module, and which of its two matrices it is."""
    if (found := _NAME.fullmatch(name)) is None:
        raise BadAdapter(
            f"{WEIGHTS_FILE}: the tensor {name[:200]} is no half of a LoRA on a linear layer"
            " (base_model.model.MODULE.lora_A.weight and lora_B.weight are)"
        )
    return found[1], found[2]


def _modules(tensors: Mapping[str, _Tensor], rank: int) -> set[str]:
    halves = dict[str, set[str]]()
    for name, tensor in tensors.items():
        module, half = _require_half(name)
        halves.setdefault(module, set()).add(half)
        found = tensor.shape[0 if half == "A" else 1]
        if found != rank:
            raise BadAdapter(
                f"{WEIGHTS_FILE}: {name} has the shape {tensor.shape}, so the rank {found}, and r is {rank}"
            )
    for module, there in halves.items():
        if len(there) < 2:
            missing = "B" if "A" in there else "A"
            raise BadAdapter(f"{WEIGHTS_FILE}: {module} has no lora_{missing}.weight")
    return set(halves)


def _check_targets(modules: Collection[str], targets: Collection[str]) -> None:
    """By PEFT's rule: a target is a module's whole name, or its end after a dot."""
    if not targets:
        return
    named, used = set(targets), set[str]()
    for module in modules:
        parts = module.split(".")
        ends = {".".join(parts[i:]) for i in range(len(parts))}
        if not (matching := ends & named):
            raise BadAdapter(f"{WEIGHTS_FILE} adapts {module}, which target_modules does not name")
        used |= matching
    if unused := sorted(named - used):
        raise BadAdapter(f"target_modules names {unused[0]}, which {WEIGHTS_FILE} does not adapt")


def _check_places(tensors: list[tuple[str, _Tensor]], rest_bytes: int) -> None:
    """They follow each other without a gap and end with the file, or one number would be read as two."""
    at = 0
    for name, tensor in tensors:
        begin, end = tensor.data_offsets
        size_bytes = prod(tensor.shape) * _DTYPES[tensor.dtype].item_bytes
        if begin != at or end - begin != size_bytes:
            raise BadAdapter(
                f"{WEIGHTS_FILE}: {name} lies at {begin} to {end}, and should have {size_bytes} bytes from {at} on"
            )
        at = end
    if at != rest_bytes:
        raise BadAdapter(
            f"{WEIGHTS_FILE}: its tensors have {at} bytes, and {rest_bytes} follow its header; is the file whole?"
        )


def _check_numbers(file: Readable, name: str, tensor: _Tensor) -> None:
    item_bytes, exponent = _DTYPES[tensor.dtype]
    bits = np.dtype(f"<u{item_bytes}")
    left = tensor.size_bytes
    while left:
        numbers = np.frombuffer(_exactly(file, min(left, _READ_BYTES)), bits)
        if bool(np.any((numbers & exponent) == exponent)):
            raise BadAdapter(f"{WEIGHTS_FILE}: {name} holds numbers that are not finite")
        left -= numbers.nbytes


def _exactly(file: Readable, n_bytes: int) -> bytes:
    found = bytearray()
    while len(found) < n_bytes:
        piece = file.read(n_bytes - len(found))
        if not piece:
            raise BadAdapter(f"{WEIGHTS_FILE} is no safetensors file, or ends too early")
        found += piece
    return bytes(found)
