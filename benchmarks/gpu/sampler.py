"""The sampler's vLLM, as its child process opens it, and what to ask of it."""

import os
from pathlib import Path

import numpy as np
from benchmarks.gpu.adapters import RANK
from benchmarks.gpu.shapes import EOS, SHAPES
from benchmarks.gpu.step import Setting
from benchmarks.gpu.training import Ids

from warren_gpu_worker.sampler.engines.choice import open_engine
from warren_gpu_worker.sampler.engines.port import Engine, PolicyKey, Request
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.settings import GpuWorkerSettings, VllmSettings
from warren_schemas.config import Sampling

KEY = PolicyKey("model_benchmark")
NAME = "warren/random"


def settings(
    folder: str,
    device: str,
    update: str,
    dtype: str,
    *,
    share: float = 0.9,
    max_batch: int = 64,
    sleeps: bool = False,
) -> GpuWorkerSettings:
    vllm = VllmSettings(
        max_adapters=4 if update == "lora" else 0,
        max_adapters_at_once=2,
        max_adapter_rank=RANK,
        gpu_memory_share=share,
        sleep="while_training" if sleeps else "never",
        attention_backend=os.environ.get("WARREN_GPU_ATTENTION") or None,
    )
    return GpuWorkerSettings.model_validate(
        {
            "base_models": {NAME: folder},
            "engine": "vllm",
            "device": device,
            "dtype": dtype,
            "seed": 0,
            "max_batch": max_batch,
            "max_batch_tokens": 16_384,
            "vllm": vllm,
        }
    )


def opened(folder: str, own: GpuWorkerSettings) -> Engine:
    return open_engine(folder, own, Endings([EOS], str))


def requests(
    shape: str, n: int, n_prompt: int, n_tokens: int, *, first_id: int = 0
) -> list[Request]:
    rng = np.random.default_rng(first_id)
    vocabulary = SHAPES[shape].vocabulary
    sampling = Sampling(max_tokens=n_tokens)
    prompts = rng.integers(3, vocabulary, (n, n_prompt)).astype(np.int32)
    return [Request(first_id + i, KEY, prompt, sampling) for i, prompt in enumerate(prompts)]


def ask(engine: Engine, asked: list[Request]) -> None:
    if refusals := engine.add_requests(asked):
        raise SystemExit(refusals[0].reason)


def finish(engine: Engine) -> None:
    """Step until all is answered; requests hold what was sampled for them."""
    while engine.has_work:
        for answer in engine.step():
            if not isinstance(answer, Request):
                raise SystemExit(answer.reason)


def prompts_of(asked: list[Request]) -> list[Ids]:
    return [request.prompt_ids_T for request in asked]


def scratch_of(setting: Setting, *words: str) -> Path:
    folder = setting.scratch.joinpath("work", "-".join(words))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
