"""vLLM over two machines (`--roles sampler --machines 2`), here two network namespaces with a CPU each: tokens, adapters,
full weights, and a network that is cut.

Each machine imports vLLM, which takes minutes on a small one.
"""

import asyncio
import subprocess
import sys
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.base_models import even_model, tiny_models
from tests.support.engines import (
    EOS,
    EXACT,
    Bench,
    build_even_model,
    last_layer_adapter,
    last_layer_weights,
    merged,
    needs_vllm,
)
from tests.support.machines import missing_told
from tests.support.namespaces import OtherMachine, needs_namespaces, other_machine
from tests.support.open_turns import submit_all
from tests.support.patience import STOP_S, whole_deployment
from tests.support.processes import free_port
from tests.support.spread import largest_gap

from warren_gpu_worker.sampler.engines.choice import open_engine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Gathered, gather
from warren_gpu_worker.sampler.supervisor.child_process import Answered, SamplerProcess
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns
from warren_gpu_worker.settings import GpuWorkerSettings

__all__ = ["even_model", "tiny_models"]
pytestmark = [
    pytest.mark.storm,
    pytest.mark.thorough,
    needs_vllm,
    needs_namespaces,
    whole_deployment,
]
BASE = "even"


def settings_for(folder: str, other: OtherMachine, max_adapters: int) -> GpuWorkerSettings:
    return GpuWorkerSettings.model_validate(
        {
            "base_models": {BASE: folder},
            "roles": ["sampler"],
            "engine": "vllm",
            "device": "cpu",
            "seed": 0,
            "max_batch": 16,
            "max_batch_tokens": 16_384,
            "machines": 2,
            "rendezvous": f"{other.ours}:{free_port()}",
            "vllm": {
                "tensor_parallel": 2,
                "max_adapters": max_adapters,
                "max_adapters_at_once": 2,
                "max_adapter_rank": 8,
            },
        }
    )


@contextmanager
def joined_by(other: OtherMachine, settings: GpuWorkerSettings) -> Generator[None]:
    """A worker there, started as users do, which joins the sampler of these settings with a GPU."""
    options = {
        "--base-model": f"{BASE}={settings.base_models[BASE]}",
        "--roles": "sampler",
        "--device": "cpu",
        "--machines": "2",
        "--tensor-parallel": "2",
        "--rendezvous": settings.rendezvous or "",
    }
    words = [word for pair in options.items() for word in pair]
    command = [sys.executable, "-m", "warren", "gpu-worker", "--join", *words]
    with subprocess.Popen(other.command(command)) as worker:
        try:
            yield
        finally:
            worker.terminate()
            worker.wait(STOP_S)


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Generator[OtherMachine]:
    """What is chosen for vLLM's network in this process is gone afterwards."""
    for name in ("VLLM_HOST_IP", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with other_machine() as machine:
        yield machine


def bench_over(other: OtherMachine, folder: str, max_adapters: int) -> Iterator[Bench]:
    settings = settings_for(folder, other, max_adapters)
    with joined_by(other, settings), gathered_for(settings) as gathered, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # vLLM's own
        endings = Endings([EOS], lambda ids: "".join(chr(ord("A") + i) for i in ids))
        engine = open_engine(folder, gathered.settings, endings, place=gathered.place)
        yield Bench(engine, folder)


@contextmanager
def gathered_for(settings: GpuWorkerSettings) -> Generator[Gathered]:
    gathered = gather(settings, lambda _: None)
    try:
        yield gathered
    finally:
        for connection in gathered.others:
            connection.close()


@pytest.fixture
def full_bench(other: OtherMachine, even_model: str) -> Iterator[Bench]:
    yield from bench_over(other, even_model, max_adapters=0)


@pytest.fixture
def lora_bench(other: OtherMachine, even_model: str) -> Iterator[Bench]:
    yield from bench_over(other, even_model, max_adapters=2)


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


def test_adapters_reach_the_other_machine_again_and_again(lora_bench: Bench) -> None:
    bench, key = lora_bench, lora_bench.key()
    for version in (1, 2):
        files = last_layer_adapter(bench.base, version)
        bench.engine.load(key, version, files)
        assert largest_gap(bench, key, merged(bench.base, files)) < EXACT
    other_key, others = bench.key(), last_layer_adapter(bench.base, 3)
    bench.engine.load(other_key, 1, others)
    assert largest_gap(bench, other_key, merged(bench.base, others)) < EXACT


async def test_a_network_that_is_cut_gives_turns_back_and_it_goes_on_once_that_is_mended(
    other: OtherMachine,
    tiny_models: dict[str, str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    build_even_model(tmp_path, like=tiny_models["warren/tiny"])
    settings = settings_for(str(tmp_path), other, max_adapters=0)
    turns = OpenTurns(100)
    answered: asyncio.Queue[Answered] = asyncio.Queue()
    given_back: asyncio.Queue[Sequence[OpenTurn]] = asyncio.Queue()
    process = SamplerProcess(BASE, settings, turns, answered.put_nowait, given_back.put_nowait)
    with joined_by(other, settings):
        working = asyncio.create_task(process.run())
        try:
            await process.ready()
            (first,) = submit_all(process, turns, None)
            assert [turn for turn, _ in await answered.get()] == [first]
            with missing_told() as told:
                other.cut()
                (second,) = submit_all(process, turns, None)
                assert list(await given_back.get()) == [second]
                assert "a machine over which vLLM is spread is gone" in caplog.text
                await told.heard.get()
            other.mend()
            (third,) = submit_all(process, turns, None)
            assert [turn for turn, _ in await answered.get()] == [third]
        finally:
            working.cancel()
            await asyncio.wait([working])
