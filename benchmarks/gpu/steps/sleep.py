# pyright: reportUnknownMemberType=false
"""vLLM sleeps and wakes: the memory that it frees, how long that takes, and that it samples as before."""

import time
from typing import cast

import torch
from benchmarks.gpu.sampler import KEY, ask, finish, opened, requests, settings
from benchmarks.gpu.shapes import built
from benchmarks.gpu.step import LeaveOut, Setting

from warren_gpu_worker.sampler.engines.port import Engine, Request, Sleeper
from warren_schemas.config import Sampling


def run(setting: Setting, shape: str) -> None:
    if not setting.on_gpu:
        raise LeaveOut("vLLM has no sleep mode on a CPU")
    folder = built(shape, setting.scratch, setting.device)
    engine = opened(
        folder, settings(folder, setting.device, "full", "bfloat16", share=0.7, sleeps=True)
    )
    engine.load(KEY, 0, None)
    before = _greedy(engine, shape, 0)
    for attempt in range(2):
        awake = torch.cuda.mem_get_info()[0]
        began_s = time.perf_counter()
        cast("Sleeper", engine).sleep()
        asleep_s, asleep = time.perf_counter() - began_s, torch.cuda.mem_get_info()[0]
        began_s = time.perf_counter()
        cast("Sleeper", engine).wake()
        awake_s = time.perf_counter() - began_s
        after = _greedy(engine, shape, 100 * (attempt + 1))
        setting.report(
            **{
                "time": attempt + 1,
                "GiB freed": (asleep - awake) / 1024**3,
                "s to sleep": asleep_s,
                "s to wake": awake_s,
                "samples the same": after == before,
            }
        )


def _greedy(engine: Engine, shape: str, first_id: int) -> list[list[int]]:
    sampling = Sampling(max_tokens=16, temperature=0.0)
    asked = [
        Request(first_id + i, KEY, request.prompt_ids_T, sampling)
        for i, request in enumerate(requests(shape, 8, 32, 16))
    ]
    ask(engine, asked)
    finish(engine)
    return [request.ids for request in asked]
