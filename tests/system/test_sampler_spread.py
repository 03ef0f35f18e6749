"""vLLM with its model spread over two processes (`--tensor-parallel 2`), here of a CPU: tokens, adapters, full weights.

Each of them imports vLLM, which takes minutes on a small machine.
"""

from collections.abc import Iterator

import pytest
from tests.support.base_models import even_model, tiny_models
from tests.support.engines import (
    EXACT,
    Bench,
    last_layer_adapter,
    last_layer_weights,
    merged,
    needs_vllm,
    opened,
)
from tests.support.patience import several_waits
from tests.support.sampling import prompt
from tests.support.spread import SHORT, largest_gap

from warren_gpu_worker.sampler.engines.port import Request
from warren_gpu_worker.settings import VllmSettings

__all__ = ["even_model", "tiny_models"]
pytestmark = [pytest.mark.storm, pytest.mark.thorough, needs_vllm, several_waits]


def bench_with(folder: str, max_adapters: int) -> Iterator[Bench]:
    vllm = VllmSettings(
        tensor_parallel=2, max_adapters=max_adapters, max_adapters_at_once=2, max_adapter_rank=8
    )
    with opened("vllm", folder, vllm=vllm) as engine:
        yield Bench(engine, folder)


@pytest.fixture
def full_bench(even_model: str) -> Iterator[Bench]:
    yield from bench_with(even_model, max_adapters=0)


@pytest.fixture
def lora_bench(even_model: str) -> Iterator[Bench]:
    yield from bench_with(even_model, max_adapters=2)


def test_full_weights_come_and_go(full_bench: Bench) -> None:
    bench, key = full_bench, full_bench.key()
    bench.engine.load(key, 0, None)
    assert largest_gap(bench, key, bench.base) < EXACT
    files = last_layer_weights(bench.base, 1)
    bench.engine.load(key, 1, files)
    assert largest_gap(bench, key, merged(bench.base, files)) < EXACT
    bare = bench.key()
    bench.engine.load(bare, 0, None)
    assert largest_gap(bench, bare, bench.base) < EXACT


def test_adapters_are_loaded_and_masks_refused(lora_bench: Bench) -> None:
    bench, key = lora_bench, lora_bench.key()
    files = last_layer_adapter(bench.base, 1)
    bench.engine.load(key, 1, files)
    assert largest_gap(bench, key, merged(bench.base, files)) < EXACT
    cut = SHORT.model_copy(update={"top_p": 0.9})
    request = Request(bench.new_id(), key, prompt(bench.rng, 8), cut, mask_capacity=100)
    (refusal,) = bench.engine.add_requests([request])
    assert "leave them out of the run's sampling" in refusal.reason
