# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (transformers leaves parts of its interface untyped)
"""A base model's folder -> modules, the same way for samplers and trainers.

Both sides of a run must load one folder alike, or the trainer's logprobs differ from the sampler's.
"""

from typing import TYPE_CHECKING, cast

from warren_gpu_worker.base_models.families import SEEING

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_base(folder: str, dtype: str = "float32", device: str = "cpu") -> "PreTrainedModel":
    """The model in `folder` with weights of `dtype` (`float32`, `bfloat16`, …), in eval mode.

    The device `auto` is a GPU if there is one.

    Raises `OSError` or `ValueError` (from transformers) when the folder holds no such model.
    """
    import torch
    from torch import nn
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    is_seeing = config.model_type in SEEING
    kind = AutoModelForImageTextToText if is_seeing else AutoModelForCausalLM
    model = kind.from_pretrained(
        folder,
        config=config,
        dtype=getattr(torch, dtype),
        attn_implementation="sdpa",
        local_files_only=True,
    )
    return cast("PreTrainedModel", cast(nn.Module, model).eval().to(chosen_device(device)))


def chosen_device(device: str) -> str:
    """`auto` is a GPU if there is one."""
    import torch

    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def chosen_dtype(dtype: str, device: str) -> str:
    """`auto` is what the device is fast at and learning is sound in: bfloat16 on a GPU, float32 on a CPU."""
    if dtype != "auto":
        return dtype
    return "float32" if chosen_device(device) == "cpu" else "bfloat16"


def configured_ends(folder: str) -> list[int]:
    """The tokens that end generation by the model's own configuration."""
    from transformers import AutoConfig, GenerationConfig

    try:
        configured = GenerationConfig.from_pretrained(folder, local_files_only=True)
    except OSError:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        configured = GenerationConfig.from_model_config(config)
    ends = cast("int | list[int] | None", configured.eos_token_id)
    return [ends] if isinstance(ends, int) else list(ends or ())


def load_tokenizer(folder: str) -> "PreTrainedTokenizerBase":
    """The tokenizer in `folder`, with its chat template if it has one."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    return cast("PreTrainedTokenizerBase", tokenizer)
