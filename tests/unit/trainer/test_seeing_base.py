"""A base model that sees is trained on text: the language part, and nothing that shows images."""

from pathlib import Path

import numpy as np
from tests.support.seeing_models import IMAGE, seeing_model
from tests.support.trainer import (
    LORA,
    MODEL,
    apply_all,
    done,
    engine_for,
    failed,
    forward_backward,
    opened,
    optim_step,
    random_batch,
)

from warren_gpu_worker.base_models.families import VISION
from warren_schemas.config import CrossEntropyLoss

__all__ = ["seeing_model"]


def test_adapters_leave_the_vision_tower_alone_and_text_is_trained_on(
    seeing_model: str, tmp_path: Path
) -> None:
    engine = opened(engine_for(Path(seeing_model), tmp_path), LORA)
    model = engine._entries[MODEL].model  # pyright: ignore[reportPrivateUsage]
    assert model.parameters
    assert not [name for name in model.parameters if VISION in name]
    op = forward_backward(random_batch(1), CrossEntropyLoss())
    apply_all(engine, [op, optim_step()])
    assert model.version == 1


def test_image_tokens_that_were_shown_are_refused_and_sampled_ones_are_not(
    seeing_model: str, tmp_path: Path
) -> None:
    engine = opened(engine_for(Path(seeing_model), tmp_path), LORA)
    batch = random_batch(2)
    ids_N, mask_N = batch.ids_N.copy(), np.ones_like(batch.mask_N)
    ids_N[3] = IMAGE
    sampled = batch.model_copy(update={"ids_N": ids_N, "mask_N": mask_N})
    done(engine.apply(MODEL, 1, forward_backward(sampled, CrossEntropyLoss())))
    mask_N[3] = 0
    shown = sampled.model_copy(update={"mask_N": mask_N})
    outcome = failed(engine.apply(MODEL, 2, forward_backward(shown, CrossEntropyLoss())))
    assert "image tokens that no policy sampled" in outcome
