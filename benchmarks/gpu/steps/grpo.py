"""GRPO end to end, all parts as `warren up` starts them: episodes/s, and the share of time a GPU idles.

LoRA: sampler and trainer side by side on one GPU. Full: they take turns, by vLLM's sleep mode. Turns are
those of `sampling`, and rewards are chance.
"""

import shutil
import time
from dataclasses import dataclass

from benchmarks.gpu.adapters import RANK
from benchmarks.gpu.ledger import Figures
from benchmarks.gpu.load import GpuLoad
from benchmarks.gpu.sampler import NAME, scratch_of, settings
from benchmarks.gpu.shapes import built
from benchmarks.gpu.step import Setting

from warren.client import connect
from warren.run import Run
from warren_env_worker.settings import EnvWorkerSettings
from warren_gpu_worker.settings import GpuWorkerOptions
from warren_schemas.config import (
    AdvantageKind,
    AlgorithmConfig,
    EnvironmentConfig,
    FullUpdate,
    LimitsConfig,
    LoraUpdate,
    ModelConfig,
    OptimizerConfig,
    PpoLoss,
    Sampling,
    TrainConfig,
)
from warren_schemas.events import Phase, StepCompleted
from warren_up.demo import free_port
from warren_up.process import run as run_in_loop
from warren_up.site import Site, running
from warren_up.start_view import Unheard

GROUP_SIZE = 8


@dataclass(frozen=True)
class Size:
    groups_per_step: int
    max_tokens: int
    n_steps: int


ON_GPU, ON_CPU = Size(16, 256, 8), Size(2, 8, 4)
SHARE = 0.35
"""Of the GPU's memory for vLLM, where the trainer has its own beside it."""
SHARE_IN_TURNS = 0.6
"""The same, where vLLM sleeps while the trainer works."""


def run(setting: Setting, shape: str, update: str) -> None:
    size = ON_GPU if setting.on_gpu else ON_CPU
    folder = built(shape, setting.scratch, setting.device)
    home = scratch_of(setting, "grpo", shape, update)
    takes_turns = update == "full" and setting.on_gpu
    dtype = "bfloat16" if setting.on_gpu else "float32"
    given = settings(
        folder,
        setting.device,
        update,
        dtype,
        share=SHARE_IN_TURNS if takes_turns else SHARE,
        max_batch=256,
        sleeps=takes_turns,
    )
    options = {
        name: getattr(given, name) for name in ("engine", "device", "dtype", "max_batch", "vllm")
    }
    site = Site(
        home,
        free_port(),
        base_models=(f"{NAME}={folder}",),
        gpu_options=GpuWorkerOptions(**options),
        env_options=EnvWorkerSettings(environments=("benchmarks.gpu.random_env:Chance",)),
    )
    try:
        run_in_loop(lambda: _measure(site, setting, update, size), site)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def config(update: str, size: Size) -> TrainConfig:
    how = FullUpdate() if update == "full" else LoraUpdate(rank=RANK, alpha=2.0 * RANK)
    return TrainConfig(
        name="chance",
        model=ModelConfig(base=NAME, update=how),
        environments=(EnvironmentConfig(name="chance"),),
        sampling=Sampling(temperature=1.0, max_tokens=size.max_tokens),
        algorithm=AlgorithmConfig(
            loss=PpoLoss(),
            advantage=AdvantageKind.GROUP_STD,
            group_size=GROUP_SIZE,
            groups_per_step=size.groups_per_step,
            max_staleness=1,
        ),
        optimizer=OptimizerConfig(learning_rate=1e-6, clip_norm=1.0),
        limits=LimitsConfig(steps=size.n_steps),
        seed=0,
    )


def figures(size: Size, n_episodes: int, took_s: float, load: GpuLoad) -> Figures:
    """Means over all steps but the first."""
    return {
        "steps": size.n_steps,
        "episodes/s": n_episodes / took_s,
        "s for a step": took_s / (size.n_steps - 1),
        "tokens of a turn": size.max_tokens,
        "GPU idle share": load.idle_share(),
    }


async def _measure(site: Site, setting: Setting, update: str, size: Size) -> None:
    began_s = time.monotonic()
    async with (
        running(site, Unheard()),
        connect(site.url, site.key_file.read_text().strip()) as client,
    ):
        setting.report(**{"s to start": time.monotonic() - began_s})
        run = await client.train(config(update, size))
        await _watch(run, setting, size)
        await run.result()


async def _watch(run: Run, setting: Setting, size: Size) -> None:
    """A line for every optimizer step but the first, each with the mean since that one."""
    load, first = GpuLoad(setting.on_gpu), None
    async for event in run.events():
        body = event.body
        if not isinstance(body, StepCompleted) or body.phase is not Phase.TRAINING:
            continue
        now_s = time.monotonic()
        if first is None:
            first = (now_s, body.n_episodes)
            load.begin()
            continue
        n_episodes, took_s = body.n_episodes - first[1], now_s - first[0]
        if body.step == size.n_steps:
            setting.report(**figures(size, n_episodes, took_s, load))
