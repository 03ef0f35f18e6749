# pyright: reportUnknownMemberType=false
# (transformers leaves parts of its interface untyped)
"""Starting vLLM: can it run here, with which arguments, in which environment.

The engine core runs in this very process, stepped by hand: the sampler's child *is* the process that
may die, and no token is made while weights change, so versions are exact without any bookkeeping by
vLLM. Scheduling ahead of the running step is off for the same reason.
"""

import importlib.util
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import torch
from transformers import AutoConfig, PreTrainedConfig

from warren_gpu_worker.base_models.loading import chosen_device, chosen_dtype
from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.engines.port import Request
from warren_gpu_worker.sampler.engines.vllm.memory_share import told_share
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
from warren_gpu_worker.settings import GpuWorkerSettings

if TYPE_CHECKING:
    from vllm.inputs import EngineInput

MakePrompt = Callable[[Request, str], "EngineInput"]
"""Of a request with images, and a salt."""

log = logging.getLogger(__name__)

_CPU_HEAD_SIZES = frozenset({32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512})
_CPU_MEMORY_SHARE = 0.4
_CPU_BLOCK = 128
"""Tokens of one block of the cache on a CPU."""

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_HOST_IP": "127.0.0.1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
}


def why_not(folder: str, device: str, *, sleeps: bool = False, n_stages: int = 1) -> str | None:
    """Why vLLM can't sample from the model in this folder, or None if it can.

    `sleeps`: it must be able to free its memory; `n_stages` of its pipeline.

    Raises `OSError` or `ValueError` (from transformers) when the folder holds no model.
    """
    if importlib.util.find_spec("vllm") is None:
        return "vLLM is not installed (docs/sampler.md says how to)"
    if _is_on_cpu(device):
        head_size = _head_size(_text_config(folder))
        if head_size not in _CPU_HEAD_SIZES:
            return f"vLLM has no attention heads of size {head_size} on a CPU"
        if sleeps:
            return "vLLM has no sleep mode on a CPU"
        if n_stages > 1:  # vLLM 0.32 starts, and loses a request in the first step
            return "vLLM has no pipeline of several stages on a CPU"
    return None


def prepare_environment(device: str) -> None:
    """Before vLLM is imported: it reads most of its settings from the environment."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if _is_on_cpu(device):  # compiling takes minutes, which small machines don't win back
        from torch._dynamo import config as dynamo  # two seconds, for vLLM alone

        dynamo.disable = True


def engine_arguments(
    folder: str, settings: GpuWorkerSettings, place: Place | None = None
) -> dict[str, object]:
    """The arguments of `EngineArgs` for this model and machine, which has a `place` if there are several.

    -1 as the longest context leaves it to vLLM: what the memory holds, at most the model's own.
    """
    config, on_cpu = _text_config(folder), _is_on_cpu(settings.device)
    arguments: dict[str, object] = {
        "model": folder,
        "skip_tokenizer_init": True,
        "dtype": _dtype(settings),
        "seed": settings.seed,
        "max_num_seqs": settings.max_batch,
        "enforce_eager": on_cpu or not settings.vllm.cuda_graphs,
        "async_scheduling": False,
        "scheduling_policy": "priority",
        "enable_prefix_caching": settings.vllm.prefix_caching,
        "logprobs_mode": "processed_logprobs",
        "disable_log_stats": True,
        "max_model_len": _longest(config, settings) if settings.vllm.max_context else -1,
        "tensor_parallel_size": settings.vllm.tensor_parallel,
        "pipeline_parallel_size": settings.vllm.pipeline_parallel,
    }
    if place is not None:  # vLLM's own start on several machines
        arguments |= {**place.model_dump(), "distributed_executor_backend": "mp"}
    if settings.vllm.attention_backend is not None:
        arguments["attention_backend"] = settings.vllm.attention_backend
    if on_cpu:
        n_bytes = _cache_bytes(config, settings)
        arguments["kv_cache_memory_bytes"] = n_bytes
        fits = n_bytes // _bytes_per_token(config, _dtype(settings))
        arguments["max_model_len"] = min(_longest(config, settings), fits)
    else:
        arguments["gpu_memory_utilization"] = settings.vllm.gpu_memory_share or told_share(
            folder, settings, _gpu_bytes
        )
        arguments["enable_sleep_mode"] = settings.takes_turns
        arguments["kv_cache_dtype"] = settings.vllm.kv_cache_dtype
    if settings.vllm.max_adapters:
        at_once, n_zero = settings.vllm.max_adapters_at_once, int(needs_zero_adapter(settings))
        arguments |= {
            "enable_lora": True,
            "max_loras": min(at_once, settings.vllm.max_adapters) + n_zero,
            "max_cpu_loras": settings.vllm.max_adapters + n_zero,
            "max_lora_rank": settings.vllm.max_adapter_rank,
        }
    return arguments


def enable_images(vision: VisionInputs, arguments: dict[str, object]) -> MakePrompt:
    """Have vLLM take images; the arguments become those that it needs for them."""
    from warren_gpu_worker.sampler.engines.vllm import (
        images,
    )  # and modules of vLLM that text alone needs not

    arguments |= images.enable_images(vision)
    return images.prompt_with_images


def told_context(n_tokens: int, folder: str) -> int:
    """The longest context that vLLM has room for; where the model has a longer one, that is told."""
    of_model = int(_text_config(folder).max_position_embeddings)
    if n_tokens < of_model:
        log.warning(
            "prompt and answer may have %d tokens together, and the model could take %d: the rest is"
            " more than --max-context says or the cache holds (--gpu-memory-share,"
            " --max-batch-tokens on a CPU)",
            n_tokens,
            of_model,
        )
    return n_tokens


def _gpu_bytes() -> int:
    """Of the first GPU that this process sees; asked of the driver, so that vLLM may still fork."""
    from vllm.platforms import current_platform

    return current_platform.get_device_total_memory()


def _longest(config: PreTrainedConfig, settings: GpuWorkerSettings) -> int:
    """Most tokens of prompt and answer, if the memory holds them."""
    longest = int(config.max_position_embeddings)
    return min(longest, settings.vllm.max_context or longest)


def needs_zero_adapter(settings: GpuWorkerSettings) -> bool:
    """Whether requests without an adapter need one (see `vllm_adapters`)."""
    return settings.vllm.max_adapters > 0 and _is_on_cpu(settings.device)


def vocabulary_size(folder: str) -> int:
    return int(_text_config(folder).vocab_size)


def _is_on_cpu(device: str) -> bool:
    return chosen_device(device) == "cpu"


def _dtype(settings: GpuWorkerSettings) -> str:
    return chosen_dtype(settings.dtype, settings.device)


def _text_config(folder: str) -> PreTrainedConfig:
    config = cast(PreTrainedConfig, AutoConfig.from_pretrained(folder, local_files_only=True))
    return config.get_text_config()


def _head_size(config: PreTrainedConfig) -> int:
    explicit = cast("int | None", getattr(config, "head_dim", None))
    return explicit or int(config.hidden_size) // int(config.num_attention_heads)


def _bytes_per_token(config: PreTrainedConfig, dtype: str) -> int:
    """Of keys and values in all layers."""
    n_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    itemsize = cast(torch.dtype, getattr(torch, dtype)).itemsize
    return 2 * int(config.num_hidden_layers) * int(n_heads) * _head_size(config) * itemsize


def _cache_bytes(config: PreTrainedConfig, settings: GpuWorkerSettings) -> int:
    """What `max_batch_tokens` need, in whole blocks, but never most of the memory."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    block_bytes = _CPU_BLOCK * _bytes_per_token(config, _dtype(settings))
    n_wanted = -(-settings.max_batch_tokens // _CPU_BLOCK) + 1
    n_affordable = int(_CPU_MEMORY_SHARE * available) // block_bytes
    return max(2, min(n_wanted, n_affordable)) * block_bytes
