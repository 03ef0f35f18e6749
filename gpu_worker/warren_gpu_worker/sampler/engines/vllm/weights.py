"""Full weights into vLLM's model, in place.

They go through vLLM's own reload, which knows how its layers are laid out and packed. Where the model is spread over
several processes, each reads its part from a file in the memory of its host.
"""

from collections.abc import Callable
from typing import Protocol

from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from torch import Tensor, nn
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.v1.engine.llm_engine import LLMEngine

from warren_gpu_worker.memory_folder import Scratch
from warren_gpu_worker.sampler.engines.vllm.files import Files
from warren_gpu_worker.settings import GpuWorkerSettings

ReplaceWeights = Callable[[dict[str, Tensor] | None], None]
"""Take these tensors, by the names of the files; None: those of the model's own folder."""


class _Process(Protocol):
    """vLLM's worker, as far as it matters here."""

    model_config: "_ModelConfig"

    def reload_weights(self, *, weights_path: str) -> None: ...


class _ModelConfig(Protocol):
    tokenizer: str
    """The folder that the model was loaded from at first: vLLM forgets it as the model's own when it loads from another."""


def replacing(engine: LLMEngine, settings: GpuWorkerSettings) -> ReplaceWeights:
    if settings.vllm.n_gpus == 1:
        return lambda tensors: _replace_here(engine, tensors)
    files = Files(engine, Scratch("warren-weights"), settings.sampler_machines)
    return lambda tensors: _replace_everywhere(engine, files, tensors)


def _replace_here(engine: LLMEngine, tensors: dict[str, Tensor] | None) -> None:
    given = {} if tensors is None else {"weights_iterator": tensors.items()}
    engine.collective_rpc("reload_weights", kwargs=given)
    engine.apply_model(_repack_head)


def _replace_everywhere(engine: LLMEngine, files: Files, tensors: dict[str, Tensor] | None) -> None:
    if tensors is None:
        engine.collective_rpc(_reload_own)
    else:
        _reload_written(engine, files, tensors)
    engine.apply_model(_repack_head)


def _reload_written(engine: LLMEngine, files: Files, tensors: dict[str, Tensor]) -> None:
    file = files.folder / "model.safetensors"
    try:
        save_file(tensors, file)
        files.spread(file)
        engine.collective_rpc("reload_weights", kwargs={"weights_path": str(files.folder)})
    finally:
        files.remove(file)


def _reload_own(process: _Process) -> None:
    """In each process of vLLM, from the folder of its own machine."""
    process.reload_weights(weights_path=process.model_config.tokenizer)


def _repack_head(model: nn.Module) -> None:
    """On a CPU vLLM packs the head anew only if it has weights of its own, not when it is tied."""
    for module in model.modules():
        if isinstance(module, ParallelLMHead) and hasattr(module, "cpu_linear"):
            module.quant_method.process_weights_after_loading(module)
