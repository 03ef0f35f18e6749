"""Policies on one base model: adapters and full weights, loaded, replaced, refused, kept apart."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from peft import PeftModel
from tests.support.sampling import (
    FREE,
    LIVE,
    OTHER,
    adapter,
    assert_exact,
    completions,
    nudged,
    prompt,
    tiny_engine,
)
from transformers import PreTrainedModel

from warren_gpu_worker.sampler.engines.port import PolicyKey, PolicyUnusable, Request
from warren_gpu_worker.weights import PolicyFiles
from warren_schemas.config import Sampling


def test_adapters_of_different_models_do_not_leak(tiny_lora: PreTrainedModel) -> None:
    before = {name: p.clone() for name, p in tiny_lora.named_parameters()}
    engine = tiny_engine(tiny_lora)
    models: dict[PolicyKey, PreTrainedModel | PeftModel] = {LIVE: tiny_lora}
    for seed, rank in ((1, 4), (2, 8), (3, 4)):
        key = PolicyKey(f"adapted_{seed}")
        files, models[key] = adapter(tiny_lora, seed, rank)
        engine.load(key, seed, files)
    rng = np.random.default_rng(0)
    keys = list(models)
    requests = [Request(i, keys[i % 4], prompt(rng, 3 + i), FREE) for i in range(24)]
    engine.add_requests(requests)
    done = completions(engine)
    for request in requests:
        assert_exact(models[request.policy], request, done[request.id])
    differing = {tuple(done[i].logprobs_T[:1].tolist()) for i in range(24)}
    assert len(differing) > 12
    for name, parameter in tiny_lora.named_parameters():
        assert torch.equal(parameter, before[name])


def test_a_new_version_of_an_adapter_takes_over_in_flight(tiny_lora: PreTrainedModel) -> None:
    engine = tiny_engine(tiny_lora, end_ids=())
    older, _ = adapter(tiny_lora, seed=1)
    newer, newer_model = adapter(tiny_lora, seed=2)
    engine.load(OTHER, 1, older)
    rng = np.random.default_rng(1)
    engine.add_requests([Request(1, OTHER, prompt(rng, 6), Sampling(max_tokens=5))])
    engine.step()
    engine.load(OTHER, 2, newer)
    late = Request(2, OTHER, prompt(rng, 6), Sampling(max_tokens=5))
    engine.add_requests([late])
    done = completions(engine)
    assert done[1].versions_T.tolist() == [1, 2, 2, 2, 2]
    assert_exact(newer_model, late, done[2])


def test_an_adapter_of_another_shape_replaces_the_old_one(tiny_lora: PreTrainedModel) -> None:
    engine = tiny_engine(tiny_lora)
    wider, wider_model = adapter(tiny_lora, seed=2, rank=8)
    engine.load(OTHER, 1, adapter(tiny_lora, seed=1, rank=4)[0])
    engine.load(OTHER, 2, wider)
    request = Request(1, OTHER, prompt(np.random.default_rng(2), 6), FREE)
    engine.add_requests([request])
    assert_exact(wider_model, request, completions(engine)[1])


def _renamed(files: PolicyFiles) -> None:
    files.tensors["nobody.weight"] = files.tensors.pop("model.norm.weight")


def _reshaped(files: PolicyFiles) -> None:
    files.tensors["model.norm.weight"] = torch.ones(3)


def _cut(files: PolicyFiles) -> None:
    del files.tensors["model.norm.weight"]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [(_renamed, "no place for"), (_reshaped, "has shape"), (_cut, "1 tensors are missing")],
)
def test_weights_that_do_not_fit_change_nothing(
    tiny: PreTrainedModel, damage: Callable[[PolicyFiles], None], reason: str
) -> None:
    engine = tiny_engine(tiny)
    engine.load(OTHER, 1, nudged(tiny, seed=1))
    reference = tiny_engine(tiny, seed=3)
    reference.load(OTHER, 1, nudged(tiny, seed=1))
    damaged = nudged(tiny, seed=2)
    damage(damaged)
    with pytest.raises(PolicyUnusable, match=reason):
        engine.load(OTHER, 2, damaged)
    assert engine.version_of(OTHER) == 1
    greedy = Sampling(temperature=0.0, max_tokens=8)
    ids_T = prompt(np.random.default_rng(3), 5)
    engine.add_requests([Request(1, OTHER, ids_T, greedy)])
    reference.add_requests([Request(1, OTHER, ids_T, greedy)])
    assert completions(engine)[1].ids_T.tolist() == completions(reference)[1].ids_T.tolist()


def test_an_adapter_config_that_is_none_is_refused(tiny_lora: PreTrainedModel) -> None:
    engine = tiny_engine(tiny_lora)
    files, _ = adapter(tiny_lora, seed=1)
    with pytest.raises(PolicyUnusable, match="no LoRA config"):
        engine.load(OTHER, 1, PolicyFiles("lora", files.tensors, {"colour": "blue"}))
    assert engine.version_of(OTHER) is None
