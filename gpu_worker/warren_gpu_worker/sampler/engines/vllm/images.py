# pyright: reportUnknownMemberType=false
# (torch leaves parts of its interface untyped)
"""Images into vLLM: processed here, handed over in their places.

vLLM would process images by itself, on torchvision where that is installed, and expand their tokens.
Then its pixels could differ from the other engine's and the trainer's, and its tokens from those in
the transcript. So it gets what `base_models.vision_inputs` made, and a processor of its own that only tells
how large an image may be.
"""

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from inspect import signature

import torch
from transformers import BatchFeature
from vllm.config.multimodal import MultiModalDummyOptions
from vllm.engine.arg_utils import EngineArgs
from vllm.inputs import MultiModalDataDict
from vllm.inputs.engine import MultiModalInput, mm_input
from vllm.model_executor.models import ModelRegistry
from vllm.multimodal import MULTIMODAL_REGISTRY
from vllm.multimodal.inputs import (
    MultiModalFieldConfig,
    MultiModalKwargsItems,
    PlaceholderRange,
)
from vllm.multimodal.parse import MultiModalDataItems
from vllm.multimodal.processing import (
    BaseDummyInputsBuilder,
    BaseMultiModalProcessor,
    BaseProcessingInfo,
    PromptUpdate,
)

from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.engines.port import MAX_IMAGES, Request

_CLASSES = {
    "qwen2_vl": "Qwen2VLForConditionalGeneration",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
}
"""vLLM's, by type of model; the types are also the names of its modules."""
_ARGUMENTS: dict[str, object] = {
    "limit_mm_per_prompt": {"image": MAX_IMAGES},
    "skip_mm_profiling": True,
    "mm_processor_cache_gb": 0,
    "mm_device_do_normalize": False,
}
"""Pixels come normalized: vLLM would do it once more, and see something else."""
_NEEDS_TORCHVISION = "transformers.models.qwen2_vl.image_processing_qwen2_vl"
_ITS_DUPLICATE = "transformers.models.qwen2_vl.image_processing_pil_qwen2_vl"


def enable_images(vision: VisionInputs) -> dict[str, object]:
    """Before vLLM starts: let it take images of this model as we make them.

    Returns arguments of `EngineArgs`, as far as this version of vLLM knows them.
    """
    _do_without_torchvision()
    name = _CLASSES[vision.model_type]
    module = importlib.import_module(f"vllm.model_executor.models.{vision.model_type}")
    model = getattr(module, name)
    info = _info_of(vision.max_tokens)
    MULTIMODAL_REGISTRY.register_processor(_Processor, info=info, dummy_inputs=_Dummies)(model)
    ModelRegistry.register_model(name, model)
    known = signature(EngineArgs).parameters
    return {key: value for key, value in _ARGUMENTS.items() if key in known}


def prompt_with_images(request: Request, salt: str) -> MultiModalInput:
    """What vLLM is given; nothing that it cached is shared between salts."""
    pictures = [placed.picture for placed in request.pictures]
    grids = torch.tensor([picture.grid for picture in pictures])
    pixels = torch.cat([torch.from_numpy(picture.pixels_PD) for picture in pictures])
    kinds = {
        "pixel_values": MultiModalFieldConfig.flat_from_sizes("image", grids.prod(-1)),
        "image_grid_thw": MultiModalFieldConfig.batched("image", keep_on_cpu=True),
    }
    features = BatchFeature({"pixel_values": pixels, "image_grid_thw": grids})
    ranges = [
        PlaceholderRange(offset=placed.start, length=placed.picture.n_tokens)
        for placed in request.pictures
    ]
    return mm_input(
        request.prompt_ids_T.tolist(),
        MultiModalKwargsItems.from_hf_inputs(features, kinds),
        {"image": [f"{picture.digest}@{salt}" for picture in pictures]},
        {"image": ranges},
        cache_salt=salt,
    )


def _do_without_torchvision() -> None:
    """vLLM's modules take one function from one that imports torchvision; its duplicate has it, too."""
    if importlib.util.find_spec("torchvision") is None:
        sys.modules.setdefault(_NEEDS_TORCHVISION, importlib.import_module(_ITS_DUPLICATE))


def _info_of(max_tokens: int) -> type[BaseProcessingInfo]:
    class Info(BaseProcessingInfo):
        def get_supported_mm_limits(self) -> Mapping[str, int | None]:
            return {"image": None}

        def get_mm_max_tokens_per_item(
            self, seq_len: int, mm_counts: Mapping[str, int]
        ) -> Mapping[str, int]:
            return {"image": max_tokens}

    return Info


class _Processor(BaseMultiModalProcessor[BaseProcessingInfo]):
    """Never asked to process anything."""

    requires_tokenizer = False

    def _get_mm_fields_config(
        self, hf_inputs: BatchFeature, hf_processor_mm_kwargs: Mapping[str, object]
    ) -> Mapping[str, MultiModalFieldConfig]:
        raise NotImplementedError

    def _get_prompt_updates(
        self,
        mm_items: MultiModalDataItems,
        hf_processor_mm_kwargs: Mapping[str, object],
        out_mm_kwargs: MultiModalKwargsItems,
    ) -> Sequence[PromptUpdate]:
        raise NotImplementedError


class _Dummies(BaseDummyInputsBuilder[BaseProcessingInfo]):
    """None: vLLM is told not to measure the vision tower's memory."""

    def get_dummy_text(self, mm_counts: Mapping[str, int]) -> str:
        return ""

    def get_dummy_mm_data(
        self, seq_len: int, mm_counts: Mapping[str, int], mm_options: MultiModalDummyOptions
    ) -> MultiModalDataDict:
        return {}
