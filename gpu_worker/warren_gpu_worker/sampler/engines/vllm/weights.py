"""Full weights into vLLM's model, in place.

They go through vLLM's own reload, which knows how its layers are laid out and packed.
"""

from torch import Tensor, nn
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.v1.engine.llm_engine import LLMEngine


def replace_weights(engine: LLMEngine, tensors: dict[str, Tensor] | None) -> None:
    """Take these tensors, by the names of the files; None: those of the model's own folder."""
    given = {} if tensors is None else {"weights_iterator": tensors.items()}
    engine.collective_rpc("reload_weights", kwargs=given)
    engine.apply_model(_repack_head)


def _repack_head(model: nn.Module) -> None:
    """On a CPU vLLM packs the head anew only if it has weights of its own, not when it is tied."""
    for module in model.modules():
        if isinstance(module, ParallelLMHead) and hasattr(module, "cpu_linear"):
            module.quant_method.process_weights_after_loading(module)
