"""The sampler's tests sample from the tiny family, on one thread."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from tests.support.base_models import tiny_models
from transformers import PreTrainedModel

from warren_gpu_worker.base_models import load_base

__all__ = ["tiny_models"]


@pytest.fixture
def tiny(tiny_models: dict[str, str]) -> PreTrainedModel:
    torch.set_num_threads(1)
    return load_base(tiny_models["warren/tiny"])


@pytest.fixture
def tiny_lora(tiny_models: dict[str, str]) -> PreTrainedModel:
    torch.set_num_threads(1)
    return load_base(tiny_models["warren/tiny-lora"])
