"""What every engine promises, on one model that all of them can run."""

import copy
from collections.abc import Callable, Iterator
from typing import cast

import numpy as np
import pytest
import torch
from peft import PeftModel
from tests.support.base_models import even_model, tiny_models
from tests.support.engines import (
    ENGINES,
    Bench,
    change_last_layer,
    gap,
    gaps,
    last_layer_adapter,
    last_layer_weights,
    merged,
    opened,
)
from tests.support.sampling import adapter, nudged, reference_logprobs, restricted, with_weights
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engine import Completion, PolicyUnusable, Refusal, Request
from warren_gpu_worker.settings import EngineName
from warren_gpu_worker.weights import PolicyFiles
from warren_schemas.config import Sampling
from warren_schemas.episode import FailureKind, FinishReason

__all__ = ["even_model", "tiny_models"]

EXACT = 1e-3
"""Largest difference of a logprob from the trainer's, in float32."""
OTHER = 0.01
"""A difference that different weights make, and rounding never does."""

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, raised between our lines


@pytest.fixture(scope="module", params=ENGINES)
def bench(request: pytest.FixtureRequest, even_model: str) -> Iterator[Bench]:
    with opened(cast(EngineName, request.param), even_model) as engine:
        yield Bench(engine, even_model)


def completed(answer: Completion | Refusal) -> Completion:
    assert isinstance(answer, Completion), answer
    return answer


def test_logprobs_are_a_plain_forwards_for_mixed_lengths_and_late_joiners(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 0, None)
    requests: list[Request] = []
    done: dict[int, Completion | Refusal] = {}
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


def test_many_adapters_at_once_do_not_leak(bench: Bench) -> None:
    models: dict[int, PreTrainedModel | PeftModel] = {}
    requests: list[Request] = []
    for seed in range(5):  # more than vLLM has places for in one step
        files, model = adapter(bench.base, seed, rank=4 if seed % 2 else 8)
        key = bench.key()
        bench.engine.load(key, seed, files)
        for request in bench.submit(key, Sampling(max_tokens=6), n=3):
            requests.append(request)
            models[request.id] = model
    plain = bench.key()
    bench.engine.load(plain, 0, None)
    for request in bench.submit(plain, Sampling(max_tokens=6), n=3):
        requests.append(request)
        models[request.id] = bench.base
    done = bench.finish()
    for request in requests:
        answer = completed(done[request.id])
        assert gap(models[request.id], request, answer) < EXACT


def test_loading_more_adapters_than_run_at_once_disturbs_nobody(bench: Bench) -> None:
    running: list[tuple[PeftModel, Request]] = []
    for seed in range(2):
        files, model = adapter(bench.base, seed)
        key = bench.key()
        bench.engine.load(key, 1, files)
        running += [(model, r) for r in bench.submit(key, Sampling(max_tokens=40), n=2)]
    done: dict[int, Completion | Refusal] = {}
    for seed in range(10, 22):  # loaded, but sampled from by nobody
        done |= {answer.id: answer for answer in bench.engine.step()}
        bench.engine.load(bench.key(), 1, adapter(bench.base, seed)[0])
    done |= bench.finish()
    for model, request in running:
        assert gap(model, request, completed(done[request.id])) < EXACT


@pytest.mark.parametrize("kind", ["adapter", "full"])
def test_fifty_updates_under_load_leave_no_token_with_a_wrong_version(
    bench: Bench, kind: str
) -> None:
    make = last_layer_adapter if kind == "adapter" else last_layer_weights
    key = bench.key()
    versions = {version: make(bench.base, version) for version in range(1, 52)}
    bench.engine.load(key, 1, versions[1])
    requests = bench.submit(key, Sampling(max_tokens=25), n=4)
    done: dict[int, Completion | Refusal] = {}
    for version in range(2, 52):
        for _ in range(2):
            done |= {answer.id: answer for answer in bench.engine.step()}
        bench.engine.load(key, version, versions[version])
        if version % 4 == 0:
            requests += bench.submit(key, Sampling(max_tokens=25), n_prompt=version)
    done |= bench.finish()
    answers = {i: completed(answer) for i, answer in done.items()}
    assert len({v for answer in answers.values() for v in answer.versions_T.tolist()}) > 40
    model = copy.deepcopy(bench.base)
    right, wrong = list[float](), list[float]()
    for request in requests:
        answer = answers[request.id]
        for version in set(answer.versions_T.tolist()):
            change_last_layer(model, bench.base, versions[version])
            gaps_T = gaps(model, request, answer)
            right += gaps_T[answer.versions_T == version].tolist()
            wrong += gaps_T[answer.versions_T != version].tolist()
    assert max(right) < EXACT
    assert float(np.median(wrong)) > OTHER, "versions can be told apart"


@pytest.mark.parametrize("kind", ["adapter", "full"])
def test_what_is_cached_is_kept_or_computed_anew(bench: Bench, kind: str) -> None:
    for recompute in (False, True):
        key, sampling = bench.key(), Sampling(max_tokens=12)
        if kind == "adapter":
            (old, _), (new, model) = adapter(bench.base, 1), adapter(bench.base, 2)
        else:
            old, new = nudged(bench.base, 1), nudged(bench.base, 2)
            model = with_weights(bench.base, new)
        bench.engine.load(key, 1, old)
        early = bench.submit(key, sampling, n_prompt=150, n=3)
        for _ in range(4):
            bench.engine.step()
        bench.engine.load(key, 2, new, recompute=recompute)
        late = [
            Request(request.id + 10_000, key, request.prompt_ids_T, sampling) for request in early
        ]
        bench.engine.submit(late)
        done = bench.finish()
        for request in late:  # the same prompts, but nothing of what is cached
            assert gap(model, request, completed(done[request.id])) < EXACT
        ended = [completed(done[request.id]) for request in early if request.id in done]
        assert any(1 in answer.versions_T and 2 in answer.versions_T for answer in ended)
        differences = [
            gap(model, request, completed(done[request.id]), slice(4, None))
            for request in early
            if request.id in done
        ]
        assert (max(differences) < EXACT) == recompute


def test_full_weights_of_several_models_take_turns(bench: Bench) -> None:
    before = {name: p.clone() for name, p in bench.base.named_parameters()}
    keys = [bench.key(), bench.key(), bench.key(pinned=9), bench.key()]
    policies = [nudged(bench.base, seed) for seed in range(3)]
    bench.engine.load(keys[0], 0, None)
    for key, files in zip(keys[1:], policies, strict=True):
        bench.engine.load(key, 9, files)
    models = [bench.base, *(with_weights(bench.base, files) for files in policies)]
    requests = [
        (model, request)
        for _ in range(2)
        for key, model in zip(keys, models, strict=True)
        for request in bench.submit(key, Sampling(max_tokens=5), n=2)
    ]
    done = bench.finish()
    for model, request in requests:
        answer = completed(done[request.id])
        assert set(answer.versions_T.tolist()) == {0 if request.policy == keys[0] else 9}
        assert gap(model, request, answer) < EXACT
    for name, parameter in bench.base.named_parameters():
        assert torch.equal(parameter, before[name])


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
    bench.engine.submit(waiting)
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
    bench.engine.submit([Request(30_000 + i, key, ids, free) for i, ids in enumerate(bad)])
    done = bench.finish()
    completed(done[good.id])
    kinds = [done[i].kind for i in (too_long.id, 30_000, 30_001, 30_002)]  # type: ignore[union-attr]
    assert kinds == [FailureKind.CONTEXT_LENGTH, *[FailureKind.INVALID_REQUEST] * 3]


def _renamed(files: PolicyFiles) -> None:
    name = next(iter(files.tensors))
    files.tensors["nobody.weight"] = files.tensors.pop(name)


def _reshaped(files: PolicyFiles) -> None:
    name = next(iter(files.tensors))
    files.tensors[name] = torch.ones(3, 3)


def _cut(files: PolicyFiles) -> None:
    files.tensors.pop(next(iter(files.tensors)))


@pytest.mark.parametrize("kind", ["adapter", "full"])
@pytest.mark.parametrize("damage", [_renamed, _reshaped, _cut])
def test_weights_that_do_not_fit_change_nothing(
    bench: Bench, kind: str, damage: Callable[[PolicyFiles], None]
) -> None:
    key = bench.key()
    make = last_layer_adapter if kind == "adapter" else last_layer_weights
    good = make(bench.base, 1)
    model = merged(bench.base, good)
    bench.engine.load(key, 1, good)
    (under_way,) = bench.submit(key, Sampling(max_tokens=8))
    done = {answer.id: answer for answer in bench.engine.step()}
    broken = make(bench.base, 2)
    damage(broken)
    with pytest.raises(PolicyUnusable):
        bench.engine.load(key, 2, broken)
    assert bench.engine.version_of(key) == 1
    answer = completed((done | bench.finish())[under_way.id])
    assert set(answer.versions_T.tolist()) == {1}
    assert gap(model, under_way, answer) < EXACT


def test_policies_that_nobody_uses_can_be_unloaded(bench: Bench) -> None:
    key = bench.key()
    bench.engine.load(key, 3, last_layer_adapter(bench.base, 1))
    assert bench.engine.version_of(key) == 3
    bench.engine.unload(key)
    bench.engine.unload(key)
    assert bench.engine.version_of(key) is None


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
