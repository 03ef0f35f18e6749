"""Weights are found sound before an engine sees them."""

import pytest
import torch
from tests.support.sampling import adapter, nudged
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import PolicyUnusable
from warren_gpu_worker.sampler.engines.weight_shapes import BaseShapes


@pytest.fixture
def shapes(tiny_models: dict[str, str]) -> BaseShapes:
    return BaseShapes(tiny_models["warren/tiny"])


def test_sound_weights_pass(shapes: BaseShapes, tiny: PreTrainedModel) -> None:
    shapes.check(nudged(tiny, seed=1), max_rank=8)
    shapes.check(adapter(tiny, seed=1, rank=8)[0], max_rank=8)
    shapes.check(shapes.zero_adapter(), max_rank=8)


@pytest.mark.parametrize("kind", ["full", "lora"])
def test_numbers_that_are_not_finite_are_refused(
    shapes: BaseShapes, tiny: PreTrainedModel, kind: str
) -> None:
    files = nudged(tiny, seed=1) if kind == "full" else adapter(tiny, seed=1)[0]
    next(iter(files.tensors.values())).view(-1)[0] = torch.nan
    with pytest.raises(PolicyUnusable, match="not finite"):
        shapes.check(files, max_rank=8)


def test_an_adapter_wider_than_the_sampler_has_room_for_is_refused(
    shapes: BaseShapes, tiny: PreTrainedModel
) -> None:
    with pytest.raises(PolicyUnusable, match="its rank is 16; this sampler takes at most 8"):
        shapes.check(adapter(tiny, seed=1, rank=16)[0], max_rank=8)


def test_half_an_adapter_and_what_is_none_are_refused(
    shapes: BaseShapes, tiny: PreTrainedModel
) -> None:
    files = adapter(tiny, seed=1)[0]
    half = next(iter(files.tensors))
    kept = files.tensors.pop(half)
    with pytest.raises(PolicyUnusable, match="1 tensors are missing"):
        shapes.check(files, max_rank=8)
    files.tensors["model.norm.weight"] = kept
    with pytest.raises(PolicyUnusable, match="no half of a LoRA adapter"):
        shapes.check(files, max_rank=8)
