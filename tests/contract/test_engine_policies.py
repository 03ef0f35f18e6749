"""What every engine promises of policies that come, change and go while it samples."""

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from peft import PeftModel
from tests.support.base_models import even_model, tiny_models
from tests.support.engines import (
    EXACT,
    Bench,
    bench,
    change_last_layer,
    completed,
    gap,
    gaps,
    last_layer_adapter,
    last_layer_weights,
    merged,
)
from tests.support.sampling import adapter, nudged, with_weights
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import PolicyUnusable, Refusal, Request, Stager
from warren_gpu_worker.weights import PolicyFiles
from warren_schemas.config import Sampling

__all__ = ["bench", "even_model", "tiny_models"]

OTHER = 0.01
"""A difference that different weights make, and rounding never does."""

pytestmark = pytest.mark.filterwarnings("ignore")  # vLLM's own, raised between our lines


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


def test_what_was_staged_on_another_thread_is_what_samples(bench: Bench) -> None:
    """Of two that were staged the second is loaded, and of the first nothing is left."""
    key, engine = bench.key(), bench.engine
    files, model = adapter(bench.base, 7)
    with ThreadPoolExecutor(1) as threads:
        dropped, staged = (
            threads.submit(engine.stage, each).result() if isinstance(engine, Stager) else each
            for each in (adapter(bench.base, 8)[0], files)
        )
    engine.load(key, 1, staged)
    folder = dropped.staged.folder if dropped.staged else None
    del dropped
    assert folder is None or not folder.exists()
    (request,) = bench.submit(key, Sampling(max_tokens=6))
    assert gap(model, request, completed(bench.finish()[request.id])) < EXACT


def test_loading_more_adapters_than_run_at_once_disturbs_nobody(bench: Bench) -> None:
    running: list[tuple[PeftModel, Request]] = []
    for seed in range(2):
        files, model = adapter(bench.base, seed)
        key = bench.key()
        bench.engine.load(key, 1, files)
        running += [(model, r) for r in bench.submit(key, Sampling(max_tokens=40), n=2)]
    done: dict[int, Request | Refusal] = {}
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
    done: dict[int, Request | Refusal] = {}
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
        bench.engine.add_requests(late)
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
