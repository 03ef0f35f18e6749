"""Full weights into vLLM's model, in place.

They go through vLLM's own reload, which knows how its layers are laid out and packed. Where the model is spread over
several processes, each reads its part from a file in this host's memory.
"""

from collections.abc import Callable

from safetensors.torch import save_file  # pyright: ignore[reportUnknownVariableType]
from torch import Tensor, nn
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.v1.engine.llm_engine import LLMEngine

from warren_gpu_worker.memory_folder import Scratch

ReplaceWeights = Callable[[dict[str, Tensor] | None], None]
"""Take these tensors, by the names of the files; None: those of the model's own folder."""


def replacing(engine: LLMEngine, folder: str, n_gpus: int) -> ReplaceWeights:
    """For a model that was loaded from this folder."""
    if n_gpus == 1:
        return lambda tensors: _replace_here(engine, tensors)
    scratch = Scratch("warren-weights")
    return lambda tensors: _replace_everywhere(engine, folder, scratch, tensors)


def _replace_here(engine: LLMEngine, tensors: dict[str, Tensor] | None) -> None:
    _reload(engine, {} if tensors is None else {"weights_iterator": tensors.items()})


def _replace_everywhere(
    engine: LLMEngine, folder: str, scratch: Scratch, tensors: dict[str, Tensor] | None
) -> None:
    """vLLM's processes keep the last path for the one to load from, so it is always named."""
    if tensors is None:
        return _reload(engine, {"weights_path": folder})
    file = scratch.folder / "model.safetensors"
    save_file(tensors, file)
    try:
        _reload(engine, {"weights_path": str(scratch.folder)})
    finally:
        file.unlink()


def _reload(engine: LLMEngine, given: dict[str, object]) -> None:
    engine.collective_rpc("reload_weights", kwargs=given)
    engine.apply_model(_repack_head)


def _repack_head(model: nn.Module) -> None:
    """On a CPU vLLM packs the head anew only if it has weights of its own, not when it is tied."""
    for module in model.modules():
        if isinstance(module, ParallelLMHead) and hasattr(module, "cpu_linear"):
            module.quant_method.process_weights_after_loading(module)
