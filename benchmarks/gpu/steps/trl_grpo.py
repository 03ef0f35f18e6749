# pyright: reportMissingImports=false, reportMissingTypeStubs=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
"""The peer of `grpo`: TRL's GRPOTrainer on the same shape, with the same batches, lengths and rewards.

Whatever `grpo` does not set is TRL's default, as its users start it. On a GPU it samples by vLLM in its own process
(`colocate`), which sleeps during updates of all weights; without one, by transformers.
"""

import random
import shutil
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.gpu.adapters import RANK
from benchmarks.gpu.load import GpuLoad
from benchmarks.gpu.random_env import digits
from benchmarks.gpu.sampler import scratch_of
from benchmarks.gpu.shapes import built
from benchmarks.gpu.step import LeaveOut, Setting
from benchmarks.gpu.steps.grpo import (
    GROUP_SIZE,
    ON_CPU,
    ON_GPU,
    SHARE,
    SHARE_IN_TURNS,
    Size,
    figures,
)

N_AT_ONCE = 16
"""Sequences in one pass of its trainer; the gradient is summed over as many passes as a batch needs."""


def run(setting: Setting, shape: str, update: str) -> None:
    if find_spec("trl") is None:
        raise LeaveOut(
            "TRL is not installed here: make .venv-trl/installed, and call again with "
            'GPU_PYTHON=.venv-trl/bin/python ARGS="--only trl_grpo"'
        )
    size = ON_GPU if setting.on_gpu else ON_CPU
    folder = built(shape, setting.scratch, setting.device)
    home = scratch_of(setting, "trl", shape, update)
    try:
        began_s = time.monotonic()
        trainer = _trainer(setting, folder, home, update, size)
        setting.report(**{"s to start": time.monotonic() - began_s})
        trainer.train()
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _trainer(setting: Setting, folder: str, home: Path, update: str, size: Size) -> Any:
    from datasets import Dataset
    from peft import LoraConfig
    from trl import GRPOTrainer

    n_episodes = size.groups_per_step * GROUP_SIZE
    rng = random.Random(0)
    rows = [
        {"prompt": [{"role": "user", "content": digits(rng)}]}
        for _ in range(size.groups_per_step * size.n_steps)
    ]
    lora = LoraConfig(
        r=RANK, lora_alpha=2 * RANK, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return GRPOTrainer(
        model=folder,
        reward_funcs=_chance,
        args=_config(setting, home, update, size),
        train_dataset=Dataset.from_list(rows),
        peft_config=lora if update == "lora" else None,
        callbacks=[_clock()(setting, size, n_episodes)],
    )


def _config(setting: Setting, home: Path, update: str, size: Size) -> Any:
    from trl import GRPOConfig

    n_episodes = size.groups_per_step * GROUP_SIZE
    n_at_once = min(N_AT_ONCE, n_episodes)
    takes_turns = update == "full"
    vllm = {
        "use_vllm": True,
        "vllm_gpu_memory_utilization": SHARE_IN_TURNS if takes_turns else SHARE,
        "vllm_enable_sleep_mode": takes_turns,
    }
    return GRPOConfig(
        output_dir=str(home),
        per_device_train_batch_size=n_at_once,
        gradient_accumulation_steps=n_episodes // n_at_once,
        num_generations=GROUP_SIZE,
        max_completion_length=size.max_tokens,
        max_steps=size.n_steps,
        learning_rate=1e-6,
        bf16=setting.on_gpu,
        use_cpu=not setting.on_gpu,
        seed=0,
        save_strategy="no",
        disable_tqdm=True,
        **vllm if setting.on_gpu else {},
    )


def _chance(completions: list[Any], **_: object) -> list[float]:
    return [_rng().random() for _ in completions]


@cache
def _rng() -> random.Random:
    return random.Random(1)


@cache
def _clock() -> Any:
    """A class of transformers' kind, made once transformers may be imported."""
    from transformers import TrainerCallback

    class Clock(TrainerCallback):
        """Reports what all steps but the first took."""

        def __init__(self, setting: Setting, size: Size, n_episodes: int) -> None:
            self._setting, self._size, self._n_episodes = setting, size, n_episodes
            self._load = GpuLoad(setting.on_gpu)
            self._began_s = 0.0

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == 1:
                self._began_s = time.monotonic()
                self._load.begin()
            elif state.global_step == self._size.n_steps:
                took_s = time.monotonic() - self._began_s
                n_episodes = self._n_episodes * (self._size.n_steps - 1)
                self._setting.report(**figures(self._size, n_episodes, took_s, self._load))

    return Clock
