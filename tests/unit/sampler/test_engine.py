# pyright: reportUnknownMemberType=false
"""The engine samples exactly: its logprobs are those of a plain forward pass without any cache."""

from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.support.sampling import (
    EOS,
    FREE,
    LIVE,
    OTHER,
    assert_exact,
    completions,
    nudged,
    prompt,
    reference_logprobs,
    restricted,
    run,
    tiny_engine,
    with_weights,
)
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import PolicyKey, Refusal, Request
from warren_schemas.config import Sampling
from warren_schemas.episode import FailureKind, FinishReason


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_logprobs_equal_a_plain_forward_for_mixed_lengths_and_late_joiners(
    tiny: PreTrainedModel, temperature: float
) -> None:
    rng = np.random.default_rng(0)
    engine = tiny_engine(tiny, max_batch=16)
    requests = [
        Request(
            i,
            LIVE,
            prompt(rng, int(rng.integers(1, 60))),
            Sampling(temperature=temperature, max_tokens=int(rng.integers(1, 30))),
        )
        for i in range(48)
    ]
    done: dict[int, Request | Refusal] = {}
    for start in range(0, len(requests), 6):
        engine.add_requests(requests[start : start + 6])
        done.update({a.id: a for a in engine.step()})
    done.update(completions(engine))
    for request in requests:
        assert_exact(tiny, request, done[request.id])


def test_equal_prompts_are_prefilled_once_and_still_differ(tiny: PreTrainedModel) -> None:
    rng = np.random.default_rng(1)
    shared, alone = prompt(rng, 9), prompt(rng, 14)
    engine = tiny_engine(tiny)
    requests = [Request(i, LIVE, alone if i == 5 else shared, FREE) for i in range(16)]
    engine.add_requests(requests)
    done = completions(engine)
    for request in requests:
        assert_exact(tiny, request, done[request.id])
    assert len({done[i].ids_T.tobytes() for i in range(16)}) > 8


def test_greedy_equals_generate(tiny: PreTrainedModel) -> None:
    rng = np.random.default_rng(2)
    engine = tiny_engine(tiny)
    greedy = Sampling(temperature=0.0, max_tokens=20)
    requests = [Request(i, LIVE, prompt(rng, 3 + 5 * i), greedy) for i in range(5)]
    engine.add_requests(requests)
    done = completions(engine)
    for request in requests:
        ids = torch.from_numpy(request.prompt_ids_T.astype(np.int64))[None]
        with torch.inference_mode():
            expected_1T = cast(Any, tiny).generate(
                ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False
            )
        assert done[request.id].ids_T.tolist() == expected_1T[0, ids.shape[1] :].tolist()
        assert_exact(tiny, request, done[request.id])


def test_settings_differ_by_row_within_one_batch(tiny: PreTrainedModel) -> None:
    rng = np.random.default_rng(3)
    settings = [
        Sampling(temperature=0.0, max_tokens=8),
        Sampling(temperature=0.7, top_k=3, max_tokens=8),
        Sampling(temperature=1.3, top_p=0.6, max_tokens=8),
        Sampling(temperature=0.9, top_k=20, top_p=0.8, max_tokens=8),
        Sampling(temperature=1.0, max_tokens=8),
    ]
    engine = tiny_engine(tiny)
    requests = [Request(i, LIVE, prompt(rng, 4 + i), settings[i % 5]) for i in range(20)]
    engine.add_requests(requests)
    done = completions(engine)
    for request in requests:
        logprobs_TV = reference_logprobs(tiny, request, done[request.id].ids_T)
        for t, token in enumerate(done[request.id].ids_T.tolist()):
            kept = restricted(logprobs_TV[t], request.sampling)
            assert kept[token] > 0
            logprob = done[request.id].logprobs_T[t]
            assert logprob == pytest.approx(float(kept[token].log()), abs=1e-4)


def test_tokens_are_drawn_with_the_probabilities_that_are_reported(tiny: PreTrainedModel) -> None:
    base = tiny_engine(tiny, max_batch=4096)
    ids_T = np.array([2, 45], np.int32)
    sampling = Sampling(temperature=0.3, top_k=5, max_tokens=1)
    base.add_requests([Request(i, LIVE, ids_T, sampling) for i in range(4000)])
    done = completions(base)
    tokens, counts = np.unique([d.ids_T[0] for d in done.values()], return_counts=True)
    told = {int(d.ids_T[0]): float(np.exp(d.logprobs_T[0])) for d in done.values()}
    assert len(tokens) <= 5
    for token, count in zip(tokens, counts, strict=True):
        assert count / 4000 == pytest.approx(told[int(token)], abs=0.04)


def test_a_seed_repeats_a_run(tiny: PreTrainedModel) -> None:
    def sample(seed: int) -> list[list[int]]:
        rng = np.random.default_rng(4)
        engine = tiny_engine(tiny, seed=seed)
        engine.add_requests([Request(i, LIVE, prompt(rng, 5), FREE) for i in range(8)])
        return [d.ids_T.tolist() for _, d in sorted(completions(engine).items())]

    assert sample(7) == sample(7) != sample(8)


def test_new_weights_between_steps_stamp_the_tokens_that_they_made(tiny: PreTrainedModel) -> None:
    engine = tiny_engine(tiny, end_ids=())
    sampling = Sampling(max_tokens=6)
    first = np.array([2, 5, 6], np.int32)
    engine.add_requests([Request(1, LIVE, first, sampling)])
    engine.step()
    engine.step()
    newer = nudged(tiny, seed=1)
    engine.load(LIVE, 3, newer)
    engine.add_requests([Request(2, LIVE, first, sampling)])
    done = completions(engine)
    assert done[1].versions_T.tolist() == [0, 0, 3, 3, 3, 3]
    assert done[2].versions_T.tolist() == [3] * 6
    assert_exact(with_weights(tiny, newer), Request(2, LIVE, first, sampling), done[2])
    kept = reference_logprobs(tiny, Request(1, LIVE, first, sampling), done[1].ids_T)
    np.testing.assert_allclose(
        done[1].logprobs_T[:2], [float(kept[t, done[1].ids_T[t]]) for t in range(2)], atol=1e-4
    )


def test_policies_run_side_by_side_without_touching_each_other(tiny: PreTrainedModel) -> None:
    before = {name: p.clone() for name, p in tiny.named_parameters()}
    engine = tiny_engine(tiny)
    pinned = PolicyKey("model_b", 9)
    models = {LIVE: tiny}
    for key, version in ((OTHER, 5), (pinned, 9)):
        engine.load(key, version, nudged(tiny, seed=version))
        models[key] = with_weights(tiny, nudged(tiny, seed=version))
    rng = np.random.default_rng(5)
    keys = [LIVE, OTHER, pinned]
    requests = [Request(i, keys[i % 3], prompt(rng, 3 + i), FREE) for i in range(18)]
    engine.add_requests(requests)
    done = completions(engine)
    for request in requests:
        assert set(done[request.id].versions_T) == {{LIVE: 0, OTHER: 5, pinned: 9}[request.policy]}
        assert_exact(models[request.policy], request, done[request.id])
    for name, parameter in tiny.named_parameters():
        assert torch.equal(parameter, before[name])


def test_row_25_turns_end_at_the_end_token_a_stop_string_or_a_limit(tiny: PreTrainedModel) -> None:
    rng = np.random.default_rng(6)
    everything = tuple(range(56))
    engine = tiny_engine(tiny, end_ids=everything)
    engine.add_requests([Request(1, LIVE, prompt(rng, 4), FREE)])
    assert completions(engine)[1].finish is FinishReason.STOP
    engine = tiny_engine(tiny, end_ids=())
    letters = tuple(chr(ord("a") + i) for i in range(56))
    engine.add_requests(
        [Request(1, LIVE, prompt(rng, 4), FREE.model_copy(update={"stop": letters}))]
    )
    engine.add_requests([Request(2, LIVE, prompt(rng, 4), FREE)])
    engine.add_requests([Request(3, LIVE, prompt(rng, 510), FREE)])
    done = completions(engine)
    assert (done[1].finish, done[1].ids_T.size) == (FinishReason.STOP, 1)
    assert (done[2].finish, done[2].ids_T.size) == (FinishReason.LENGTH, 6)
    assert (done[3].finish, done[3].ids_T.size) == (FinishReason.LENGTH, 2)


def test_bad_requests_are_refused_and_their_neighbours_answered(tiny: PreTrainedModel) -> None:
    rng = np.random.default_rng(7)
    engine = tiny_engine(tiny)
    refused = engine.add_requests(
        [
            Request(1, LIVE, prompt(rng, 512), FREE),
            Request(2, LIVE, np.array([2, 56], np.int32), FREE),
            Request(3, LIVE, np.array([], np.int32), FREE),
            Request(4, LIVE, prompt(rng, 5), FREE),
        ]
    )
    assert {refusal.id: refusal.kind for refusal in refused} == {
        1: FailureKind.CONTEXT_LENGTH,
        2: FailureKind.INVALID_REQUEST,
        3: FailureKind.INVALID_REQUEST,
    }
    assert list(completions(engine)) == [4]


def test_weights_that_are_not_finite_are_refused_and_harm_nobody(tiny: PreTrainedModel) -> None:
    files = nudged(tiny, seed=1)
    files.tensors["model.norm.weight"][0] = torch.nan
    engine = tiny_engine(tiny)
    engine.load(OTHER, 1, files)
    rng = np.random.default_rng(8)
    engine.add_requests(
        [Request(1, OTHER, prompt(rng, 3), FREE), Request(2, LIVE, prompt(rng, 3), FREE)]
    )
    answers = run(engine)
    refused = answers[1]
    assert isinstance(refused, Refusal)
    assert "not finite" in refused.reason
    assert not isinstance(answers[2], Refusal)


def test_cancelled_requests_are_forgotten(tiny: PreTrainedModel) -> None:
    rng = np.random.default_rng(9)
    engine = tiny_engine(tiny, max_batch=4, end_ids=())
    requests = [Request(i, LIVE, prompt(rng, 3 + i), FREE) for i in range(8)]
    engine.add_requests(requests)
    engine.step()
    engine.cancel({0, 2, 6, 99})
    done = completions(engine)
    assert sorted(done) == [1, 3, 4, 5, 7]
    for request in requests:
        if request.id in done:
            assert_exact(tiny, request, done[request.id])


def test_batch_and_token_limits_hold_and_nobody_starves(tiny: PreTrainedModel) -> None:
    rng = np.random.default_rng(10)
    engine = tiny_engine(tiny, max_batch=5, max_batch_tokens=100, end_ids=())
    engine.add_requests(
        [Request(i, LIVE, prompt(rng, 4), Sampling(max_tokens=6)) for i in range(12)]
    )
    engine.add_requests([Request(50, LIVE, prompt(rng, 200), FREE)])
    answered: set[int] = set()
    while engine.has_work:
        answered |= {a.id for a in engine.step()}
        assert engine.statistics().n_running <= 5
    assert answered == {*range(12), 50}


def test_unused_policies_are_evicted(tiny: PreTrainedModel) -> None:
    size_bytes = sum(p.nbytes for p in tiny.parameters())
    engine = tiny_engine(tiny, policy_memory_bytes=int(2.5 * size_bytes))
    keys = [PolicyKey(f"model_{i}") for i in range(4)]
    rng = np.random.default_rng(11)
    engine.load(keys[0], 1, nudged(tiny, 0))
    engine.add_requests([Request(1, keys[0], prompt(rng, 3), FREE)])
    for i in (1, 2, 3):
        engine.load(keys[i], 1, nudged(tiny, i))
    assert [engine.version_of(key) for key in keys] == [1, None, None, 1]
    assert engine.statistics().policy_bytes == 2 * size_bytes
    assert set(completions(engine)) == {1}
    engine.unload(keys[0])
    assert engine.version_of(keys[0]) is None


def test_eos_is_the_last_token(tiny: PreTrainedModel) -> None:
    rng = np.random.default_rng(12)
    engine = tiny_engine(tiny)
    engine.add_requests(
        [Request(i, LIVE, prompt(rng, 6), Sampling(max_tokens=200)) for i in range(16)]
    )
    for done in completions(engine).values():
        if done.finish is FinishReason.STOP:
            assert done.ids_T[-1] == EOS
        assert EOS not in done.ids_T[:-1]
