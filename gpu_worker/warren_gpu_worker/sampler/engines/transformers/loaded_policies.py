# pyright: reportUnknownMemberType=false
# (torch and peft leave parts of their interfaces untyped)
"""Which policies' weights are loaded on one base model.

Every policy is a module of its own that shares storage with the base model wherever it has no
weights of its own: a full-parameter policy brings its own tensors, a LoRA policy brings adapters.
So nothing has to be switched between batches, and nothing can leak from one model to another.

Invariants: the base model's weights are never written; a policy that does not fit changes nothing;
new weights take the place of old ones in one assignment per tensor, between two steps.
"""

import copy
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import cast

from peft import LoraConfig, PeftModel
from torch import Tensor, nn
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import PolicyKey, PolicyUnusable
from warren_gpu_worker.weights import PolicyFiles


@dataclass(slots=True)
class LoadedPolicy:
    version: int
    module: PreTrainedModel
    own: dict[str, Tensor]
    """The weights that are not the base model's, by the names of the files."""
    adapter_config: dict[str, object] | None

    @property
    def size_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in {id(t): t for t in self.own.values()}.values())


class LoadedPolicies:
    def __init__(self, base: PreTrainedModel, memory_bytes: int) -> None:
        self._base = base.requires_grad_(False)
        self._memory_bytes = memory_bytes
        self._policies: dict[PolicyKey, LoadedPolicy] = {}  # the least recently used comes first

    def __len__(self) -> int:
        return sum(1 for policy in self._policies.values() if policy.own)

    @property
    def size_bytes(self) -> int:
        return sum(policy.size_bytes for policy in self._policies.values())

    def version_of(self, key: PolicyKey) -> int | None:
        policy = self._policies.get(key)
        return policy.version if policy else None

    def use(self, key: PolicyKey) -> LoadedPolicy:
        """The policy, which is now the most recently used one."""
        policy = self._policies.pop(key)
        self._policies[key] = policy
        return policy

    def load(self, key: PolicyKey, version: int, files: PolicyFiles | None) -> None:
        """Put a version among those loaded in place of an older one; None is the base model itself.

        Raises `PolicyUnusable`.
        """
        if files is None:
            self._policies[key] = LoadedPolicy(version, self._base, {}, None)
            return
        old = self._policies.get(key)
        if old is None or not old.own or old.adapter_config != files.adapter_config:
            old = self._make(files)
        _replace(old.own, files.tensors)
        self._policies[key] = LoadedPolicy(version, old.module, old.own, old.adapter_config)

    def unload(self, key: PolicyKey) -> None:
        self._policies.pop(key, None)

    def evict_unused(self, busy: Collection[PolicyKey]) -> None:
        """Unload what was not used for longest until the rest fits; busy policies stay."""
        excess_bytes = self.size_bytes - self._memory_bytes
        for key in [k for k in self._policies if k not in busy]:
            if excess_bytes <= 0:
                return
            excess_bytes -= self._policies.pop(key).size_bytes

    def _make(self, files: PolicyFiles) -> LoadedPolicy:
        """A policy of this shape, whose own weights don't mean anything yet."""
        module = _share(self._base)
        if files.adapter_config is None:
            own = cast("dict[str, Tensor]", module.state_dict(keep_vars=True))
            return LoadedPolicy(0, module, own, None)
        shared = {id(parameter) for parameter in module.parameters()}
        adapted = PeftModel(module, _lora_config(files.adapter_config)).requires_grad_(False).eval()
        own: dict[str, Tensor] = {
            name.replace(".default.", "."): parameter
            for name, parameter in adapted.named_parameters()
            if id(parameter) not in shared
        }
        return LoadedPolicy(0, module, own, files.adapter_config)


def _share(base: PreTrainedModel) -> PreTrainedModel:
    """A model of the same structure on the same storage, whose tensors can be replaced."""
    duplicates: dict[int, object] = {}
    for parameter in base.parameters():
        duplicates[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=False)
    for buffer in base.buffers():
        duplicates[id(buffer)] = buffer.detach()
    return copy.deepcopy(base, duplicates)


def _lora_config(config: dict[str, object]) -> LoraConfig:
    try:
        return LoraConfig(**{**config, "inference_mode": True})  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError) as error:
        raise PolicyUnusable(f"its adapter_config.json is no LoRA config: {error}") from error


def _replace(own: dict[str, Tensor], tensors: dict[str, Tensor]) -> None:
    """Point the weights to new storage. Names that are tied to a given one need not be given."""
    checked = [(own[n], _like(n, own[n], t)) for n, t in tensors.items() if _known(n, own)]
    given = {id(weight) for weight, _ in checked}
    missing = [name for name, weight in own.items() if id(weight) not in given]
    if missing:
        raise PolicyUnusable(f"{len(missing)} tensors are missing, for example {missing[0]}")
    for weight, tensor in checked:
        weight.data = tensor


def _known(name: str, own: Iterable[str]) -> bool:
    if name not in own:
        raise PolicyUnusable(f"there is no place for its tensor {name} in the base model")
    return True


def _like(name: str, weight: Tensor, tensor: Tensor) -> Tensor:
    """The tensor with the dtype and on the device of the weight that it replaces."""
    if tensor.shape != weight.shape:
        shapes = f"{tuple(tensor.shape)} instead of {tuple(weight.shape)}"
        raise PolicyUnusable(f"its tensor {name} has shape {shapes}")
    return tensor.to(device=weight.device, dtype=weight.dtype)
