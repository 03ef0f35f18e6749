"""What every engine promises of each request, on one model that all of them can run."""

import numpy as np
import pytest
import torch
from tests.support.base_models import even_model, tiny_models
from tests.support.engines import EXACT, Bench, bench, completed, gap
from tests.support.sampling import prompt, reference_logprobs, restricted

from warren_gpu_worker.sampler.engines.port import Refusal, Request
from warren_schemas.config import Sampling
from warren_schemas.episode import FailureKind, FinishReason
from warren_schemas.token_options import Targets, TokenOptions

__all__ = ["bench", "even_model", "tiny_models"]

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, raised between our lines


def test_logprobs_are_a_plain_forwards_for_mixed_lengths_and_late_joiners(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    requests: list[Request] = []
    done: dict[int, Request | Refusal] = {}
    for n_prompt, temperature in [(1, 0.5), (40, 1.0), (9, 1.7), (200, 1.0), (3, 0.7)]:
        sampling = Sampling(temperature=temperature, max_tokens=12)
        requests += bench.submit(key, sampling, n_prompt, n=5)
        done |= {answer.id: answer for answer in bench.engine.step()}
    done |= bench.finish()
    for request in requests:
        assert gap(bench.base, request, completed(done[request.id])) < EXACT


def test_each_row_has_settings_of_its_own(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    requests = [
        request
        for sampling in (
            Sampling(temperature=0.0, max_tokens=8),
            Sampling(temperature=0.7, top_k=3, max_tokens=8),
            Sampling(temperature=1.3, top_p=0.6, max_tokens=8),
            Sampling(temperature=0.9, top_k=20, top_p=0.8, max_tokens=8),
        )
        for request in bench.submit(key, sampling, n=4)
    ]
    done = bench.finish()
    for request in requests:
        answer = completed(done[request.id])
        logprobs_TV = reference_logprobs(bench.base, request, answer.ids_T)
        for t, token in enumerate(answer.ids_T.tolist()):
            kept_V = restricted(logprobs_TV[t], request.sampling)
            assert kept_V[token] > 0
            assert answer.logprobs_T[t] == pytest.approx(float(kept_V[token].log()), abs=EXACT)


def test_cancelled_requests_are_never_answered(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    requests = bench.submit(key, Sampling(max_tokens=200), n=30)  # more than run at once
    early = [answer.id for _ in range(3) for answer in bench.engine.step()]
    kept = requests[7].id
    bench.engine.cancel({r.id for r in requests if r.id != kept} | {987_654})
    assert bench.engine.has_requests(key)
    assert set(bench.finish()) - set(early) <= {kept}
    assert not bench.engine.has_requests(key)


def test_of_those_who_wait_the_lowest_priority_goes_first(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    running = bench.submit(key, Sampling(max_tokens=8), n=16)
    bench.engine.step()
    waiting = [
        Request(20_000 + i, key, running[0].prompt_ids_T, Sampling(max_tokens=2), priority=-i)
        for i in range(40)
    ]
    bench.engine.add_requests(waiting)
    order = [a.id for _ in range(100) if bench.engine.has_work for a in bench.engine.step()]
    first_half = [i for i in order if i >= 20_000][:16]
    assert min(first_half) >= 20_000 + 40 - 16


def test_turns_end_at_the_end_token_a_stop_string_or_a_limit(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    letters = tuple(chr(ord("A") + i) for i in range(56) if i != 1)
    (stopped,) = bench.submit(key, Sampling(max_tokens=9, stop=letters))
    (cut,) = bench.submit(key, Sampling(max_tokens=2, top_k=1))
    (full,) = bench.submit(key, Sampling(max_tokens=9), n_prompt=510)
    ending = bench.submit(key, Sampling(max_tokens=300, temperature=2.0), n=8)
    done = {i: completed(a) for i, a in bench.finish().items()}
    assert (done[stopped.id].finish, done[stopped.id].ids_T.size) == (FinishReason.STOP, 1)
    assert done[cut.id].ids_T.size <= 2
    assert done[full.id].ids_T.size <= 2
    ended = [done[r.id] for r in ending if done[r.id].finish is FinishReason.STOP]
    assert ended
    for answer in ended:
        assert answer.ids_T[-1] == 1
        assert 1 not in answer.ids_T[:-1]


def test_bad_requests_are_refused_and_their_neighbours_answered(bench: Bench) -> None:
    key, free = bench.key(), Sampling(max_tokens=4)
    bench.engine.load(key, 0, None)
    (good,) = bench.submit(key, free)
    (too_long,) = bench.submit(key, free, n_prompt=512)
    bad = [np.array(ids, np.int32) for ids in ([2, 56], [], [2, -1])]
    refused = bench.engine.add_requests(
        [Request(30_000 + i, key, ids, free) for i, ids in enumerate(bad)]
    )
    done = bench.finish()
    completed(done[good.id])
    kinds = [done[too_long.id].kind, *[refusal.kind for refusal in refused]]  # type: ignore[union-attr]
    assert kinds == [FailureKind.CONTEXT_LENGTH, *[FailureKind.INVALID_REQUEST] * 3]
    assert [refusal.id for refusal in refused] == [30_000, 30_001, 30_002]


def test_statistics_count_what_was_done(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    before = bench.engine.statistics()
    bench.submit(key, Sampling(max_tokens=4, stop=()), n=20)
    bench.engine.step()
    during = bench.engine.statistics()
    assert during.n_running + during.n_waiting > 0
    done = bench.finish()
    after = bench.engine.statistics()
    n_tokens = sum(completed(d).ids_T.size for d in done.values())
    assert n_tokens <= after.n_tokens - before.n_tokens <= 80
    assert after.n_running == after.n_waiting == 0


def test_an_engine_says_whether_it_caches_prompts(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    first, *_ = bench.submit(key, Sampling(max_tokens=4), n_prompt=300)
    bench.finish()
    before = bench.engine.statistics()
    bench.engine.add_requests([Request(30_000, key, first.prompt_ids_T, Sampling(max_tokens=4))])
    bench.finish()
    after = bench.engine.statistics()
    n_cached = after.n_cached_tokens - before.n_cached_tokens
    assert (n_cached > 0) == bench.engine.caches_prefixes
    if bench.engine.caches_prefixes:
        assert after.n_prompt_tokens - before.n_prompt_tokens == 300


def test_logprobs_of_prompts_are_a_plain_forwards(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    ids_T = prompt(bench.rng, 300)
    options = TokenOptions(prompt_logprobs=True, n_top_prompt=3)
    asked = Request(
        bench.new_id(), key, ids_T, Sampling(max_tokens=1, temperature=0.3), options=options
    )
    refused = bench.engine.add_requests([asked])
    bench.submit(key, Sampling(max_tokens=4))  # a neighbour that asks for nothing
    answers = bench.finish()
    if refused:
        assert bench.engine.caches_prefixes and "CPU" in refused[0].reason, "it is vLLM's"
        return
    told = completed(answers[asked.id]).prompt_logprobs
    assert told is not None
    plain = Request(0, key, ids_T[:1], Sampling())
    logprobs_TV = reference_logprobs(bench.base, plain, ids_T[1:])
    own_T = logprobs_TV[range(299), ids_T[1:].tolist()]
    np.testing.assert_allclose(told.prompt_logprobs_T[1:], own_T, atol=EXACT)
    best = logprobs_TV.topk(3)
    top_TK = told.top_logprobs_S.reshape(300, 3)
    np.testing.assert_allclose(top_TK[1:], best.values, atol=EXACT)
    assert (told.top_ids_S.reshape(300, 3)[1:, 0] == best.indices[:, 0].numpy()).mean() > 0.99


def asked_of_prompt(bench: Bench, options: TokenOptions, temperature: float) -> Request | Refusal:
    """A prompt of 300 tokens, and its answer."""
    key = bench.key()
    bench.engine.load(key, 0, None)
    ids_T = prompt(np.random.default_rng(3), 300)
    sampling = Sampling(max_tokens=1, temperature=temperature)
    asked = Request(bench.new_id(), key, ids_T, sampling, options=options)
    refused = bench.engine.add_requests([asked])
    return refused[0] if refused else bench.finish()[asked.id]


def is_vllms(answer: Request | Refusal) -> bool:
    return isinstance(answer, Refusal) and "vLLM" in answer.reason


def test_logprobs_of_tokens_that_are_not_in_the_prompt_are_a_plain_forwards(bench: Bench) -> None:
    rng = np.random.default_rng(4)
    places_S, ids_S = rng.integers(1, 300, 500), rng.integers(0, 56, 500)
    targets = Targets(
        n_tokens=300, places_S=places_S.astype(np.int32), target_ids_S=ids_S.astype(np.int32)
    )
    answer = asked_of_prompt(bench, TokenOptions(targets=targets), temperature=0.3)
    if is_vllms(answer):
        return
    done = completed(answer)
    plain = Request(0, done.policy, done.prompt_ids_T[:1], Sampling())
    logprobs_TV = reference_logprobs(bench.base, plain, done.prompt_ids_T[1:])
    assert done.prompt_logprobs is not None
    own_S = logprobs_TV[places_S - 1, ids_S]
    np.testing.assert_allclose(done.prompt_logprobs.target_logprobs_S, own_S, atol=EXACT)


@pytest.mark.parametrize(
    ("n_tokens", "token", "reason"),
    [(299, 7, "the targets have 298 rows"), (300, 56, "the token 56 is a target")],
)
def test_targets_that_dont_fit_are_refused(
    bench: Bench, n_tokens: int, token: int, reason: str
) -> None:
    one, target = np.array([1], np.int32), np.array([token], np.int32)
    targets = Targets(n_tokens=n_tokens, places_S=one, target_ids_S=target)
    answer = asked_of_prompt(bench, TokenOptions(targets=targets), temperature=1.0)
    assert isinstance(answer, Refusal)
    assert answer.kind is FailureKind.INVALID_REQUEST and reason in answer.reason


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
def test_tokens_are_drawn_at_each_place_of_a_prompt(bench: Bench, temperature: float) -> None:
    options = TokenOptions(n_drawn_prompt=20, seed=6)
    answer = asked_of_prompt(bench, options, temperature)
    if is_vllms(answer):
        return
    done = completed(answer)
    told = done.prompt_logprobs
    assert told is not None
    plain = Request(0, done.policy, done.prompt_ids_T[:1], Sampling())
    logprobs_TV = reference_logprobs(bench.base, plain, done.prompt_ids_T[1:])
    ids_TK = torch.tensor(told.drawn_ids_S.tolist()).reshape(300, 20)[1:]
    own_TK = logprobs_TV.gather(1, ids_TK).numpy()
    np.testing.assert_allclose(told.drawn_logprobs_S.reshape(300, 20)[1:], own_TK, atol=EXACT)
    if temperature == 0:
        best_T = logprobs_TV.max(-1).values.numpy()
        np.testing.assert_allclose(own_TK, np.repeat(best_T[:, None], 20, 1), atol=EXACT)
        return
    weights_TV = (logprobs_TV / temperature).softmax(-1)
    mean_T = (weights_TV * logprobs_TV).sum(-1)
    variance_T = (weights_TV * logprobs_TV**2).sum(-1) - mean_T**2
    error = np.abs(own_TK.mean(1) - mean_T.numpy()).mean()
    assert error < 2 * float((variance_T / 20).sqrt().mean()), (
        "the draws are of another distribution"
    )
    again = completed(asked_of_prompt(bench, options, temperature)).prompt_logprobs
    assert again is not None
    np.testing.assert_array_equal(again.drawn_ids_S, told.drawn_ids_S)


def test_a_seed_gives_the_same_tokens_whoever_decodes_beside_it(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    ids_T = prompt(bench.rng, 8)

    def sampled(seed: int, n_neighbours: int) -> list[int]:
        hot, options = Sampling(max_tokens=12, temperature=2.0), TokenOptions(seed=seed)
        request = Request(bench.new_id(), key, ids_T, hot, options=options)
        bench.engine.add_requests([request])
        if n_neighbours:
            bench.submit(key, Sampling(max_tokens=12), n=n_neighbours)
        return completed(bench.finish()[request.id]).ids

    first = sampled(7, 0)
    assert sampled(7, 5) == first
    assert len({tuple(sampled(seed, 0)) for seed in range(4)}) > 1


def test_a_turn_ends_at_tokens_of_its_own_or_at_none(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    ids_T = prompt(bench.rng, 8)
    every = [
        Request(
            bench.new_id(), key, ids_T, Sampling(max_tokens=99, temperature=2.0), options=options
        )
        for options in [TokenOptions(end_ids=tuple(range(56)))] * 3
        + [TokenOptions(end_ids=())] * 20
    ]
    bench.engine.add_requests(every)
    done = bench.finish()
    answers = [completed(done[request.id]) for request in every]
    assert [len(a.ids) for a in answers] == [1] * 3 + [99] * 20
    assert [a.finish for a in answers[2:4]] == [FinishReason.STOP, FinishReason.LENGTH]
    assert any(1 in a.ids for a in answers[3:]), "the model's own end ends nothing"
