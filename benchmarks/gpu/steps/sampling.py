# pyright: basic, reportAttributeAccessIssue=false
# (vLLM leaves most of its interface untyped)
"""Tokens/s of whole turns, so many at once: vLLM as its users start it, and Warren's sampler.

own      vLLM's `LLM` in its own processes with its own defaults: asynchronous scheduling, CUDA graphs
warren   the sampler behind the queue, and, for the base model's weights, behind queue and gateway

All have the same prompt lengths, numbers of tokens, logprobs and adapters; each is warmed up first. A CPU
compiles nothing, in both.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable

import numpy as np
from benchmarks.gpu.adapters import RANK, written
from benchmarks.gpu.sampler import settings
from benchmarks.gpu.shapes import SHAPES, built
from benchmarks.gpu.step import Setting
from benchmarks.sampler_queue.place import BASE, opened_place
from benchmarks.sampler_queue.ways import by_gateway, by_queue
from tests.support.episodes import policy

from warren_gpu_worker.sampler.engines.vllm.startup import prepare_environment
from warren_schemas.config import Sampling

LIVE = (64, 256, 1024)
LIVE_ON_CPU = (4, 16)
N_PROMPT = 25
"""As long as the turns of `sampler_queue` are."""


def run(setting: Setting, shape: str, update: str, way: str) -> None:
    folder = built(shape, setting.scratch, setting.device)
    measure = _own if way == "own" else _warren
    measure(setting, shape, update, folder)


def _sizes(setting: Setting) -> tuple[tuple[int, ...], int]:
    """Turns at once, and the tokens of each."""
    return (LIVE, 256) if setting.on_gpu else (LIVE_ON_CPU, 16)


def _dtype(setting: Setting) -> str:
    return "bfloat16" if setting.on_gpu else "float32"


def _own(setting: Setting, shape: str, update: str, folder: str) -> None:
    if not setting.on_gpu:
        prepare_environment(setting.device)
    from vllm import LLM, SamplingParams
    from vllm.lora.request import LoRARequest

    arguments: dict[str, object] = {"dtype": _dtype(setting), "skip_tokenizer_init": True}
    if not setting.on_gpu:
        arguments |= {"enforce_eager": True, "kv_cache_memory_bytes": 1 << 27}
    if backend := os.environ.get("WARREN_GPU_ATTENTION"):
        arguments["attention_backend"] = backend
    adapter = None
    if update == "lora":
        arguments |= {"enable_lora": True, "max_lora_rank": RANK}
        adapter = LoRARequest("one", 1, written(shape, setting.scratch))
    began_s = time.perf_counter()
    llm = LLM(folder, **arguments)  # pyright: ignore[reportArgumentType]
    setting.report(way="own", **{"s to start": time.perf_counter() - began_s})
    live, n_tokens = _sizes(setting)
    params = SamplingParams(
        max_tokens=n_tokens, ignore_eos=True, logprobs=0, temperature=1.0, detokenize=False
    )
    rng = np.random.default_rng(0)
    for n in live:
        done, took_s = [], 0.0
        for _ in range(2):  # the first warms up
            ids = rng.integers(3, SHAPES[shape].vocabulary, (n, N_PROMPT)).tolist()
            asked = [{"prompt_token_ids": row} for row in ids]
            began_s = time.perf_counter()
            done = llm.generate(asked, params, use_tqdm=False, lora_request=adapter)  # pyright: ignore
            took_s = time.perf_counter() - began_s
        sampled = sum(len(output.outputs[0].token_ids) for output in done)
        setting.report(way="own", live=n, **{"tokens/s": sampled / took_s})


def _warren(setting: Setting, shape: str, update: str, folder: str) -> None:
    asyncio.run(_behind_queue(setting, shape, update, folder))


async def _behind_queue(setting: Setting, shape: str, update: str, folder: str) -> None:
    live, n_tokens = _sizes(setting)
    own = settings(folder, setting.device, update, _dtype(setting), max_batch=max(live))
    changes = {name: getattr(own, name) for name in ("device", "dtype", "max_batch", "vllm")}
    acting = policy(BASE)
    if update == "lora":
        url = (setting.scratch / "adapters" / shape).as_uri()
        written(shape, setting.scratch)
        acting = policy(BASE, min_version=1, url=url)
    sampling = Sampling(max_tokens=n_tokens)
    began_s = time.perf_counter()
    async with opened_place("vllm", folder, **changes) as place:
        setting.report(way="queue", **{"s to start": time.perf_counter() - began_s})
        ways: dict[str, Way] = {"queue": by_queue(place, acting)}
        if update == "full":
            ways["gateway"] = by_gateway(place, folder)
        for n in live:
            for name, way in ways.items():
                await way(n, n, sampling)
                began_s = time.perf_counter()
                sampled = await way(n, n, sampling)
                took_s = time.perf_counter() - began_s
                setting.report(way=name, live=n, **{"tokens/s": sampled / took_s})


Way = Callable[[int, int, Sampling], Awaitable[int]]
