# pyright: reportUnknownMemberType=false
"""What a seeing model is shown, how its weights are named, and which templates show images."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.support.base_models import tiny_models
from tests.support.seeing_models import IMAGE, noise, rope_index, seeing_model
from tests.support.tokenizers import CHATML, byte_tokenizer

from warren_gpu_worker.base_models.families import module_name
from warren_gpu_worker.base_models.loading import load_base, load_tokenizer
from warren_gpu_worker.base_models.vision_inputs import NoVision, Placed, VisionInputs, positions
from warren_gpu_worker.sampler.child import main
from warren_gpu_worker.sampler.child.image_cache import ImageCache, look
from warren_gpu_worker.sampler.child.renderer import Renderer
from warren_gpu_worker.sampler.engines.port import PolicyKey, PolicyUnusable, Refusal
from warren_gpu_worker.sampler.engines.weight_shapes import BaseShapes
from warren_gpu_worker.sampler.messages import Images, PolicySource, TurnRequest
from warren_gpu_worker.weights import PolicyFiles
from warren_schemas.config import Sampling
from warren_schemas.episode import FailureKind

__all__ = ["seeing_model", "tiny_models"]


@pytest.mark.parametrize(
    ("width", "height", "n_tokens"), [(56, 56, 4), (90, 60, 6), (999, 500, 10)]
)
def test_an_image_has_as_many_tokens_as_its_shape_allows(
    seeing_model: str, width: int, height: int, n_tokens: int
) -> None:
    picture = VisionInputs(seeing_model).see(noise(0, width, height))
    assert picture.n_tokens == n_tokens
    assert picture.pixels_PD.shape[0] == 4 * n_tokens


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_every_kind_of_file_is_read(seeing_model: str, kind: str) -> None:
    assert VisionInputs(seeing_model).see(noise(0, kind=kind)).n_tokens == 6


def test_positions_are_those_of_transformers(seeing_model: str) -> None:
    vision, base = VisionInputs(seeing_model), load_base(seeing_model)
    placed = (Placed(3, vision.see(noise(0, 84, 56))), Placed(14, vision.see(noise(1, 56, 140))))
    kinds_T = np.zeros(30, np.int64)
    for each in placed:
        kinds_T[each.start : each.start + each.picture.n_tokens] = 1
    grids = torch.tensor([each.picture.grid for each in placed])
    expected_3T = rope_index(base, torch.from_numpy(kinds_T), grids).numpy()
    np.testing.assert_array_equal(positions(30, placed), expected_3T)


def test_a_model_that_reads_text_says_so(tiny_models: dict[str, str], seeing_model: str) -> None:
    with pytest.raises(NoVision, match="it reads text alone"):
        VisionInputs(tiny_models["warren/tiny"])
    blind = look(seeing_model, Renderer(byte_tokenizer(CHATML), []))
    assert isinstance(blind, NoVision)
    assert "the chat template takes no images" in str(blind)
    seeing = look(seeing_model, Renderer(load_tokenizer(seeing_model), [1]))
    assert isinstance(seeing, VisionInputs)
    assert seeing.image_token == IMAGE


def test_weights_have_the_names_of_modules_whatever_the_file_calls_them(seeing_model: str) -> None:
    shapes, base = BaseShapes(seeing_model), load_base(seeing_model)
    shapes.check(PolicyFiles("full", dict(base.named_parameters()), None), 8)
    for new in (
        "model.language_model.norm.weight",
        "model.visual.merger.ln_q.weight",
        "lm_head.weight",
    ):
        assert module_name(new) == new
    assert "language_model" in next(iter(shapes.zero_adapter().tensors))


def test_an_adapter_of_the_vision_tower_is_refused(seeing_model: str) -> None:
    module = "base_model.model.model.visual.blocks.0.mlp.down_proj"
    halves = {f"{module}.lora_A.weight": (4, 64), f"{module}.lora_B.weight": (64, 4)}
    tensors = {name: torch.zeros(shape) for name, shape in halves.items()}
    with pytest.raises(PolicyUnusable, match="it adapts the vision tower"):
        BaseShapes(seeing_model).check(PolicyFiles("lora", tensors, {}), 8)


def test_a_turn_whose_images_break_the_decoder_is_refused() -> None:
    """Whatever it raises: nobody else would answer the turn."""
    no_vision = cast("VisionInputs", None)
    turn = TurnRequest(
        id=7,
        policy=PolicySource(PolicyKey("model"), 0, None),
        ids_T=np.zeros(0, np.int32),
        messages=(("user", "?", 1),),
        sampling=Sampling(),
        forced_action=None,
        images=Images(("AAAA",), b""),
    )
    heard: list[Any] = []
    main._look(ImageCache(no_vision), turn, heard.append)  # pyright: ignore[reportPrivateUsage]
    (looked,) = heard
    assert isinstance(looked.outcome, Refusal)
    assert (looked.turn, looked.outcome.kind) == (turn, FailureKind.SAMPLER_ERROR)
    assert "the chat's images can't be seen: AttributeError" in looked.outcome.reason
