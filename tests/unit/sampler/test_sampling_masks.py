# pyright: reportUnknownMemberType=false
"""What is left to sample from: told where it is asked for, bounded, and no longer than a message."""

from typing import cast

import numpy as np
import pytest
import torch
from tests.support.factories import make_generate, make_spec, make_tokens, make_transcript
from tests.support.sampling import LIVE, completions, prompt, tiny_engine
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import Request
from warren_gpu_worker.sampler.engines.truncation import Limits, truncated
from warren_gpu_worker.sampler.messages import (
    FinishedTurn,
    Orders,
    Report,
    pack,
    unpack_answer,
    unpack_orders,
)
from warren_gpu_worker.sampler.supervisor.transcripts import extended
from warren_gpu_worker.sampler.supervisor.turn_items import request_of
from warren_schemas.config import Sampling
from warren_schemas.episode import EpisodePurpose, FinishReason
from warren_schemas.fields.limits import MAX_KEPT
from warren_schemas.sampling_mask import MAX_MASK_IDS, SamplingMask

VOCABULARY = 2000
CPU = torch.device("cpu")


def left(logprobs_V: torch.Tensor, sampling: Sampling, most: int) -> list[int]:
    """By the book: top-k, top-p of what that leaves, min-p, and no more than `most`."""
    order = [int(i) for i in logprobs_V.argsort(descending=True)]
    probs = logprobs_V.double().exp()
    kept = order[: sampling.top_k or None]
    total = sum(float(probs[i]) for i in kept)
    nucleus: list[int] = []
    for i in kept:
        if nucleus and sum(float(probs[j]) for j in nucleus) / total >= sampling.top_p:
            break
        nucleus.append(i)
    least = sampling.min_p * float(probs[order[0]])
    return [i for i in nucleus if float(probs[i]) >= least][: most or None]


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, MAX_KEPT])
def test_rows_are_cut_as_by_the_book_each_by_its_own_settings(most: int) -> None:
    several = [
        Sampling(top_p=0.6),
        Sampling(top_p=0.99),
        Sampling(top_k=7, top_p=0.9),
        Sampling(top_k=100),
        Sampling(min_p=1e-4),
        Sampling(top_p=0.95, min_p=0.01, top_k=200),
        Sampling(top_p=1e-9),
    ]
    generator = torch.Generator().manual_seed(0)
    logprobs_FV = (2 * torch.randn(len(several), VOCABULARY, generator=generator)).log_softmax(-1)
    kept = truncated(logprobs_FV, Limits.of(several, [most] * len(several), CPU))
    sets = kept.sets()
    for logprobs_V, sampling, ids in zip(logprobs_FV, several, sets, strict=True):
        assert ids.tolist() == left(logprobs_V, sampling, most)
    assert (max(ids.size for ids in sets) > MAX_KEPT) == (most == 0)
    kept.put(logprobs_FV)
    for logprobs_V, ids in zip(logprobs_FV, sets, strict=True):
        finite = cast("list[int]", logprobs_V.isfinite().nonzero()[:, 0].tolist())
        assert set(finite) == set(ids.tolist())
        assert float(logprobs_V.logsumexp(0)) == pytest.approx(0.0, abs=1e-5)


def test_a_turn_is_cut_where_its_mask_is_full(tiny: PreTrainedModel) -> None:
    engine, rng = tiny_engine(tiny, end_ids=()), np.random.default_rng(3)
    sampling = Sampling(top_k=5, max_tokens=40)
    requests = [
        Request(i, LIVE, prompt(rng, 6), sampling, mask_capacity=capacity)
        for i, capacity in enumerate([None, 23, 1000])
    ]
    engine.add_requests(requests)
    done = completions(engine)
    plain, cut, free = (done[request.id] for request in requests)
    assert plain.sampling_mask is None
    for request, n_tokens in ((cut, 5), (free, 40)):
        mask = request.sampling_mask
        assert mask is not None and request.finish is FinishReason.LENGTH
        assert (request.ids_T.size, mask.ids_S.size) == (n_tokens, 5 * n_tokens)
        assert mask.covers(request.ids_T)


@pytest.mark.parametrize(
    ("changes", "capacity"),
    [
        ({"sampling": Sampling(top_p=0.9)}, MAX_MASK_IDS - 5),
        ({"sampling": Sampling(repetition_penalty=1.5, temperature=0.5)}, None),
        ({"sampling": Sampling(top_p=0.9), "purpose": EpisodePurpose.EVALUATE}, None),
        ({"sampling": Sampling(top_p=0.9), "purpose": EpisodePurpose.DEMONSTRATE}, None),
    ],
)
def test_masks_are_kept_of_what_is_truncated_and_trained_on(
    changes: dict[str, object], capacity: int | None
) -> None:
    ids = make_tokens(4).ids_T[2:]
    mask = SamplingMask.none(2).extended(0, SamplingMask.of([np.r_[ids[:1], 9, 8], ids]))
    tokens = make_tokens(4, sampling_mask=mask)
    item = make_generate(spec=make_spec(**changes), transcript=make_transcript(tokens=tokens))
    request = request_of(1, item)
    assert request.mask_capacity == capacity
    [travelled] = unpack_orders(pack(Orders(requests=[request]))).requests
    assert travelled.mask_capacity == capacity


def test_a_finished_turn_brings_its_mask_into_the_transcript() -> None:
    ids_T = np.array([4, 5], np.int32)
    turn = FinishedTurn(
        1, np.array([7], np.int32), ids_T, -np.ones(2, np.float32), ids_T, "", FinishReason.STOP,
        sampling_mask=SamplingMask.of([np.array([4, 6], np.int32), np.array([5], np.int32)]),
    )  # fmt: skip
    report = unpack_answer(pack(Report([turn], None)))  # type: ignore[arg-type]
    assert isinstance(report, Report)
    [travelled] = report.answers
    assert isinstance(travelled, FinishedTurn)
    once = extended(make_transcript(tokens=make_tokens(3)), travelled)
    twice = extended(once, travelled)
    mask = twice.tokens.sampling_mask
    assert mask is not None
    assert mask.sizes_N.tolist() == [0, 0, 0, 0, 2, 1, 0, 2, 1]
    assert mask.ids_S.tolist() == [4, 6, 5, 4, 6, 5]
