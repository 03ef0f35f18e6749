# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (safetensors is not typed)
"""What weights a base model has: the shapes that policies are checked against before they are used.

An engine that is handed weights of other names or shapes may fail with everybody's requests in it;
so nothing reaches it that was not found sound here.
"""

from collections.abc import Iterable
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from warren_gpu_worker.base_models.families import VISION, is_seeing, module_name
from warren_gpu_worker.sampler.engines.port import PolicyUnusable
from warren_gpu_worker.weights import PolicyFiles

Shape = tuple[int, ...]

_ADAPTER_PREFIX = "base_model.model."
_HALVES = (".lora_A.weight", ".lora_B.weight")
_ADAPTABLE = ("o_proj.weight", "out_proj.weight", "down_proj.weight", "dense.weight")
"""Linear layers of which models have one or another."""
_TIED = "lm_head.weight"
"""May be left out of full weights where it is the embedding."""


class BaseShapes:
    """Raises `OSError` when the folder has no safetensors files."""

    def __init__(self, folder: str) -> None:
        shapes = _read(Path(folder))
        if is_seeing(folder):
            shapes = {module_name(name): shape for name, shape in shapes.items()}
        self._shapes = shapes

    def zero_adapter(self) -> PolicyFiles:
        """An adapter that changes nothing."""
        weight = next(
            name
            for name in self._shapes
            if name.endswith(_ADAPTABLE) and not name.startswith(VISION)
        )
        n_out, n_in = self._shapes[weight]
        module = weight.removesuffix(".weight")
        down, up = (_ADAPTER_PREFIX + module + half for half in _HALVES)
        tensors = {down: torch.zeros(1, n_in), up: torch.zeros(n_out, 1)}
        config: dict[str, object] = {
            "peft_type": "LORA",
            "r": 1,
            "lora_alpha": 1,
            "target_modules": [module],
        }
        return PolicyFiles("lora", tensors, config)

    def check(self, files: PolicyFiles, max_rank: int) -> None:
        """Raises `PolicyUnusable` when these weights don't fit, or are not finite."""
        if files.kind == "full":
            self._check_full(files.tensors)
        else:
            self._check_adapter(files.tensors, max_rank)
        for name, tensor in files.tensors.items():
            if not bool(torch.isfinite(tensor).all()):
                raise PolicyUnusable(f"its tensor {name} holds numbers that are not finite")

    def _check_full(self, tensors: dict[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            _check_shape(name, tensor, self._known(name, name))
        missing = sorted(self._shapes.keys() - tensors.keys() - {_TIED})
        _check_complete(missing)

    def _check_adapter(self, tensors: dict[str, Tensor], max_rank: int) -> None:
        modules = {_module(name) for name in tensors}
        _check_complete(sorted({m + half for m in modules for half in _HALVES} - tensors.keys()))
        for module in modules:
            n_out, n_in = self._matrix(module)
            down, up = (tensors[module + half] for half in _HALVES)
            rank = down.shape[0]
            if rank > max_rank:
                raise PolicyUnusable(f"its rank is {rank}; this sampler takes at most {max_rank}")
            _check_shape(module + _HALVES[0], down, (rank, n_in))
            _check_shape(module + _HALVES[1], up, (n_out, rank))

    def _matrix(self, module: str) -> tuple[int, int]:
        if module.startswith(_ADAPTER_PREFIX + VISION):
            raise PolicyUnusable("it adapts the vision tower; samplers take the language part's")
        shape = self._known(module.removeprefix(_ADAPTER_PREFIX) + ".weight", module)
        if len(shape) != 2:
            raise PolicyUnusable(f"its tensor {module} adapts what is no linear layer")
        return shape[0], shape[1]

    def _known(self, weight: str, name: str) -> Shape:
        if weight not in self._shapes:
            raise PolicyUnusable(f"there is no place for its tensor {name} in the base model")
        return self._shapes[weight]


def _module(name: str) -> str:
    for half in _HALVES:
        if name.startswith(_ADAPTER_PREFIX) and name.endswith(half):
            return name.removesuffix(half)
    raise PolicyUnusable(f"its tensor {name} is no half of a LoRA adapter")


def _check_shape(name: str, tensor: Tensor, shape: Shape) -> None:
    if tuple(tensor.shape) != shape:
        raise PolicyUnusable(
            f"its tensor {name} has shape {tuple(tensor.shape)} instead of {shape}"
        )


def _check_complete(missing: list[str]) -> None:
    if missing:
        raise PolicyUnusable(f"{len(missing)} tensors are missing, for example {missing[0]}")


def _read(folder: Path) -> dict[str, Shape]:
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise OSError(f"{folder} holds no safetensors files")
    return {name: shape for file in files for name, shape in _shapes_in(file)}


def _shapes_in(file: Path) -> Iterable[tuple[str, Shape]]:
    with safe_open(file, framework="pt") as opened:
        for name in opened.keys():  # noqa: SIM118  (it is no dict)
            yield name, tuple(opened.get_slice(name).get_shape())
