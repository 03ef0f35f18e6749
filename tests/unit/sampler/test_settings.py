# pyright: reportUnknownMemberType=false
"""Sampling settings that take effect: parity row 25."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.support.sampling import LIVE, completions, prompt, tiny_engine
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import Request
from warren_gpu_worker.sampler.engines.transformers.token_sampling import RowSettings, draw
from warren_schemas.config import Sampling

PROBS_V = torch.tensor([0.5, 0.3, 0.15, 0.05])


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        (Sampling(), {0, 1, 2, 3}),
        (Sampling(top_k=2), {0, 1}),
        (Sampling(top_p=0.7), {0, 1}),
        (Sampling(min_p=0.2), {0, 1, 2}),
        (Sampling(min_p=0.2, top_k=2), {0, 1}),
        (Sampling(min_p=0.61), {0}),
        (Sampling(temperature=0.0, min_p=0.2), {0}),
    ],
)
def test_row_25_what_may_be_drawn_and_with_which_logprob(
    settings: Sampling, kept: set[int]
) -> None:
    rows = 400
    keeps_mask = settings.is_truncated
    settings_B = RowSettings.of([settings] * rows, torch.device("cpu"), [keeps_mask] * rows)
    logits_BV = PROBS_V.log().repeat(rows, 1)
    drawn = draw(logits_BV, settings_B, torch.Generator().manual_seed(0))
    assert set(drawn.ids) == kept
    assert {row: set(ids.tolist()) for row, ids in drawn.sets.items()} == {
        row: kept for row in range(rows) if keeps_mask
    }
    total = 1.0 if settings.temperature == 0 else sum(float(PROBS_V[i]) for i in kept)
    for token, logprob in zip(drawn.ids, drawn.logprobs, strict=True):
        assert logprob == pytest.approx(float(torch.log(PROBS_V[token] / total)), abs=1e-5)


def test_row_25_the_repetition_penalty_is_that_of_transformers(tiny: PreTrainedModel) -> None:
    rng = np.random.default_rng(5)
    engine = tiny_engine(tiny)
    settings = [
        Sampling(temperature=0.0, max_tokens=20, repetition_penalty=penalty)
        for penalty in (1.0, 1.3, 3.0)
    ]
    requests = [Request(i, LIVE, prompt(rng, 8), s) for i, s in enumerate(settings)]
    engine.add_requests(requests)
    done = completions(engine)
    for request in requests:
        ids = torch.from_numpy(request.prompt_ids_T.astype(np.int64))[None]
        with torch.inference_mode():
            expected_1T = cast(Any, tiny).generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False,
                repetition_penalty=request.sampling.repetition_penalty,
            )  # fmt: skip
        assert done[request.id].ids_T.tolist() == expected_1T[0, ids.shape[1] :].tolist()
