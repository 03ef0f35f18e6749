"""GRPO end to end, all parts as `warren up` starts them: episodes/s, and the share of time a GPU idles.

LoRA: sampler and trainer side by side on one GPU. Full: they take turns, by vLLM's sleep mode. Turns are
those of `sampling`, and rewards are chance.
"""

import shutil
import threading
import time
from dataclasses import dataclass, field

from benchmarks.gpu.adapters import RANK
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
_EVERY_S = 0.05


@dataclass(frozen=True)
class Size:
    groups_per_step: int
    max_tokens: int
    n_steps: int


ON_GPU, ON_CPU = Size(16, 256, 8), Size(2, 8, 4)
SHARE = 0.35
"""Of the GPU's memory for vLLM, where the trainer has its own beside it."""


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
        share=0.6 if takes_turns else SHARE,
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
            setting.report(
                **{
                    "steps": body.step,
                    "episodes/s": n_episodes / took_s,
                    "s for a step": took_s / (body.step - 1),
                    "tokens of a turn": size.max_tokens,
                    "GPU idle share": load.idle_share(),
                }
            )


@dataclass
class GpuLoad:
    """What NVML says of the GPU, every 50 ms, in a thread."""

    on_gpu: bool
    _busy: list[bool] = field(default_factory=list[bool])

    def begin(self) -> None:
        if self.on_gpu:
            threading.Thread(target=self._watch, daemon=True).start()

    def idle_share(self) -> float | None:
        return 1 - sum(self._busy) / len(self._busy) if self._busy else None

    def _watch(self) -> None:
        import pynvml  # pyright: ignore[reportMissingImports]

        pynvml.nvmlInit()  # pyright: ignore
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)  # pyright: ignore
        while True:
            used = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu  # pyright: ignore
            self._busy.append(bool(used))  # pyright: ignore
            time.sleep(_EVERY_S)
