"""Adapters in vLLM: named by policy and load, kept on disk while they may be needed.

vLLM's prefix cache knows an adapter by its name, so every load gets a name that was never used; it
knows the weights by an integer, so a policy keeps its integer and requests in flight go over to the
new weights at the next step. vLLM drops adapters when it has too many and reads them again from
their path; hence a policy's path always holds its newest weights, on every machine over which vLLM is spread (`files`).

Invariant: vLLM sees no adapter that was not loaded successfully here (a broken one that it meets in
the middle of a step would take the engine down).
"""

from collections.abc import Collection
from dataclasses import dataclass
from itertools import count

from vllm.lora.request import LoRARequest
from vllm.v1.engine.llm_engine import LLMEngine

from warren_gpu_worker.memory_folder import Scratch
from warren_gpu_worker.sampler.engines.port import PolicyKey, PolicyUnusable
from warren_gpu_worker.sampler.engines.vllm.adapter_files import parent_with_space, write_adapter
from warren_gpu_worker.sampler.engines.vllm.files import Files
from warren_gpu_worker.weights import PolicyFiles, Staged


@dataclass(frozen=True, slots=True)
class LoadedAdapter:
    version: int
    handle: LoRARequest
    """What requests are submitted with."""
    size_bytes: int


class AdapterCache:
    """`zero` changes nothing: requests without an adapter run with it where vLLM needs that.

    On a CPU vLLM 0.32 gives such requests the adapter in the last place when they share a step with
    others (its pull requests 48421 and 49656 are about that).
    """

    def __init__(
        self,
        engine: LLMEngine,
        max_adapters: int,
        memory_bytes: int,
        zero: PolicyFiles | None,
        n_machines: int = 1,
    ) -> None:
        self._engine = engine
        self._max_adapters = max_adapters
        self._memory_bytes = memory_bytes
        self._adapters: dict[PolicyKey, LoadedAdapter] = {}  # the least recently used comes first
        self._numbers = count(1)
        self._loads = count(1)
        self._stages = count(1)
        self._scratch = Scratch("warren-adapters", parent_with_space(memory_bytes))
        self._files = Files(engine, self._scratch, n_machines)
        self._folder = self._files.folder
        self.zero = self._make_zero(zero) if zero else None

    def __len__(self) -> int:
        return len(self._adapters)

    @property
    def size_bytes(self) -> int:
        return sum(adapter.size_bytes for adapter in self._adapters.values())

    def get(self, key: PolicyKey) -> LoadedAdapter | None:
        return self._adapters.get(key)

    def use(self, key: PolicyKey) -> LoadedAdapter:
        """The adapter, which is now the most recently used one."""
        adapter = self._adapters.pop(key)
        self._adapters[key] = adapter
        return adapter

    def stage(self, files: PolicyFiles) -> Staged:
        """Write an adapter where vLLM reads it, on any thread. Raises `PolicyUnusable`."""
        folder = self._folder / f"staged-{next(self._stages)}"
        write_adapter(files, folder)
        return Staged(folder)

    def load(self, key: PolicyKey, version: int, files: PolicyFiles) -> None:
        """Raises `PolicyUnusable`, and then nothing has changed."""
        if not self._max_adapters:  # vLLM was started for none
            raise PolicyUnusable("this sampler takes no adapters: its vllm.max_adapters is 0")
        known = self._adapters.get(key)
        number = known.handle.lora_int_id if known else next(self._numbers)
        staged = files.staged or self.stage(files)
        draft = staged.folder
        name = f"{key.model}@{version}#{next(self._loads)}"
        try:
            self._files.spread(draft)
            self._engine.add_lora(LoRARequest(name, number, str(draft), load_inplace=True))
        except Exception as error:  # whatever vLLM dislikes about it
            self._files.remove(draft)
            raise PolicyUnusable(f"vLLM can't use this adapter: {error}") from error
        final = self._folder / str(number)
        self._files.move(draft, final)
        size_bytes = sum(tensor.nbytes for tensor in files.tensors.values())
        self._adapters.pop(key, None)
        handle = LoRARequest(name, number, str(final))
        self._adapters[key] = LoadedAdapter(version, handle, size_bytes)

    def _make_zero(self, files: PolicyFiles) -> LoRARequest:
        number = next(self._numbers)
        folder = self._folder / str(number)
        write_adapter(files, folder)
        self._files.spread(folder)
        handle = LoRARequest("zero", number, str(folder))
        self._engine.add_lora(handle)
        return handle

    def unload(self, key: PolicyKey) -> None:
        if adapter := self._adapters.pop(key, None):
            number = adapter.handle.lora_int_id
            self._engine.remove_lora(number)
            self._files.remove(self._folder / str(number))

    def evict_unused(self, busy: Collection[PolicyKey]) -> None:
        """Unload what was not used for longest until the rest fits; busy policies stay."""
        for key in [k for k in self._adapters if k not in busy]:
            if len(self) <= self._max_adapters and self.size_bytes <= self._memory_bytes:
                return
            self.unload(key)
