# pyright: reportUnknownMemberType=false
"""On policy the trainer's probability of every sampled token is the sampler's, whatever the settings.

The bound is that of float32. A ratio is the exponential of a difference of logprobs, so its error is
theirs: a few 1e-6 of the logits, which are divided by the temperature. Of temperatures below 0.3 the
bound of 1e-4 holds no more.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.base_models import even_model, tiny_models
from tests.support.engines import ENGINES, Bench, opened
from tests.support.on_policy import Loop, ratios, trained
from tests.support.trainer import FULL, LORA, MODEL, done, engine_for, model_of, sequences

from warren_gpu_worker.settings import EngineName
from warren_schemas.config import Sampling
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ModelSpec

__all__ = ["even_model", "tiny_models"]

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, raised between our lines

ON_POLICY = 1e-4


@pytest.fixture(scope="module", params=ENGINES)
def bench(request: pytest.FixtureRequest, even_model: str) -> Iterator[Bench]:
    with opened(cast(EngineName, request.param), even_model) as engine:
        yield Bench(engine, even_model)


@pytest.fixture(scope="module", params=[FULL, LORA], ids=["full", "lora"])
def loop(
    request: pytest.FixtureRequest,
    bench: Bench,
    even_model: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Loop:
    trainer = engine_for(Path(even_model), tmp_path_factory.mktemp("checkpoints"))
    spec = cast(ModelSpec, request.param)
    done(trainer.open(MODEL, spec, checkpoint_url=None, next_op=1))
    return Loop(trainer, bench)


ANY_SAMPLING = st.builds(
    Sampling,
    temperature=st.floats(0.3, 2.0),
    top_p=st.just(1.0) | st.floats(0.05, 1.0),
    top_k=st.just(0) | st.integers(1, 60),
    min_p=st.just(0.0) | st.floats(0.001, 0.9),
    repetition_penalty=st.just(1.0) | st.floats(0.5, 2.0),
    max_tokens=st.integers(1, 8),
    stop=st.sampled_from([(), ("A",), ("B", "CD")]),
)
EACH = [
    Sampling(max_tokens=6),
    Sampling(max_tokens=6, temperature=0.5),
    Sampling(max_tokens=6, top_p=0.6),
    Sampling(max_tokens=6, top_k=5, temperature=1.5),
    Sampling(max_tokens=6, min_p=0.05),
    Sampling(max_tokens=6, repetition_penalty=1.3),
    Sampling(max_tokens=6, top_p=0.9, top_k=20, min_p=0.01, repetition_penalty=0.8),
]


@settings(max_examples=12)
@given(st.lists(ANY_SAMPLING, min_size=1, max_size=8), st.integers(0, 1000))
@example(EACH, 0)
def test_the_ratio_is_1_on_policy_whatever_the_settings(
    loop: Loop, several: list[Sampling], seed: int
) -> None:
    items = loop.play(loop.publish(seed), several)
    for op in trained(items):
        told = loop.apply(op)
        assert told.logprobs_N is not None
        assert np.abs(ratios(op.batch, told.logprobs_N) - 1).max() < ON_POLICY
        assert told.metrics["ratio:max"] < 1 + ON_POLICY
        assert told.metrics["kl_k3:mean"] < ON_POLICY**2
        assert told.metrics["clip_frac:mean"] == 0


@settings(max_examples=6)
@given(st.lists(ANY_SAMPLING, min_size=1, max_size=6), st.integers(0, 1000))
@example(EACH, 0)
def test_off_policy_the_trainer_cuts_to_what_the_sampler_left(
    loop: Loop, several: list[Sampling], seed: int
) -> None:
    items = loop.play(loop.publish(seed), several)
    loop.publish(seed + 1)  # what was sampled is a step old now
    for op in trained(items):
        told = loop.apply(op)
        assert told.logprobs_N is not None
        expected_N = by_the_book(loop, op.batch, op.temperature, op.repetition_penalty)
        np.testing.assert_allclose(
            told.logprobs_N[op.batch.mask_N == 1], expected_N, atol=ON_POLICY
        )


@torch.no_grad()
def by_the_book(loop: Loop, batch: TokenBatch, temperature: float, penalty: float) -> list[float]:
    """The logprobs of the tokens that count, token by token in float64."""
    model = model_of(loop.trainer).network.causal
    mask, found = batch.sampling_mask, list[float]()
    for place in sequences(batch):
        ids = [int(i) for i in batch.ids_N[place]]
        logits_TV = model(input_ids=torch.tensor([ids])).logits[0].double()
        for t in range(1, len(ids)):
            if not batch.mask_N[place.start + t]:
                continue
            logits_V = logits_TV[t - 1].clone()
            for seen in set(ids[:t]):
                logits_V[seen] *= penalty if logits_V[seen] < 0 else 1 / penalty
            logits_V /= temperature
            left = list(range(logits_V.numel()))
            if mask is not None:
                start, size = mask.starts_N[place.start + t], mask.sizes_N[place.start + t]
                left = [int(i) for i in mask.ids_S[start : start + size]]
            found.append(float(logits_V[ids[t]] - logits_V[left].logsumexp(0)))
    return found
