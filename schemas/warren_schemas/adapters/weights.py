"""`adapter_model.safetensors`: its header and its numbers, read without a tensor library.

Invariant: only pairs of LoRA matrices of the config's rank, on the config's modules, pass, and only finite numbers.
"""

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Literal

import numpy as np
import orjson
from pydantic import Field, TypeAdapter, ValidationError

from warren_schemas.adapters.config import AdapterConfig, BadAdapter
from warren_schemas.base import Frozen
from warren_schemas.base_models.safetensors_header import (
    ITEM_BYTES,
    BadTensors,
    Placed,
    Readable,
    check_places,
    read_exactly,
    read_header,
)
from warren_schemas.text.explain import explain

WEIGHTS_FILE = "adapter_model.safetensors"
MAX_WEIGHTS_BYTES = 16 * 1024**3
_READ_BYTES = 1024 * 1024
_NAME = re.compile(r"base_model\.model\.([A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*)\.lora_([AB])\.weight")
_Dimension = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Place = Annotated[int, Field(ge=0, le=MAX_WEIGHTS_BYTES)]


_EXPONENTS = {"F32": 0x7F80_0000, "F16": 0x7C00, "BF16": 0x7F80}
"""By dtype: the bits that are all set in what is not finite."""


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
    try:
        return _checked(file, size_bytes, config)
    except BadTensors as error:
        raise BadAdapter(str(error)) from error


def _checked(file: Readable, size_bytes: int, config: AdapterConfig) -> tuple[str, ...]:
    header = read_header(file, size_bytes, WEIGHTS_FILE)
    tensors = _read_tensors(header.tensors)
    modules = _modules(tensors, config.rank)
    _check_targets(modules, config.targets)
    in_order = sorted(tensors.items(), key=lambda pair: pair[1].data_offsets)
    placed = (Placed(name, one.dtype, one.shape, *one.data_offsets) for name, one in in_order)
    check_places(placed, header.rest_bytes, WEIGHTS_FILE)
    for name, tensor in in_order:
        _check_numbers(file, name, tensor)
    return tuple(sorted({module.rpartition(".")[2] for module in modules}))


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


def _check_numbers(file: Readable, name: str, tensor: _Tensor) -> None:
    exponent = _EXPONENTS[tensor.dtype]
    bits = np.dtype(f"<u{ITEM_BYTES[tensor.dtype]}")
    left = tensor.size_bytes
    while left:
        piece = read_exactly(file, min(left, _READ_BYTES), WEIGHTS_FILE)
        numbers = np.frombuffer(piece, bits)
        if bool(np.any((numbers & exponent) == exponent)):
            raise BadAdapter(f"{WEIGHTS_FILE}: {name} holds numbers that are not finite")
        left -= numbers.nbytes
