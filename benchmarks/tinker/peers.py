"""Peers of Warren, each out of an environment that has it and an SDK that it speaks with (`setup_peers.sh` makes them).

TuFT 0.2.2 trains by transformers and peft, one model after the other, and samples by vLLM on GPUs alone: here it trains.
It asks its cluster for a GPU, which is made believe that there is one, and torch for the peak of a GPU's memory, which is
not counted here. SkyRL 0.3.0 trains and samples by JAX, on Python 3.12; its batches are cut to sizes of their own, so that it
compiles once.
"""

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.episodes.meter import cpu_by_process
from benchmarks.tinker.server import Server, answers, program
from tests.support.processes import free_port

KEY = "tml-benchmark"
RANK, N_SEQUENCES, N_AT_ONCE, CONTEXT = 8, 8, 32, 512
MOST_MODELS = 8

_NO_GPU = """\
import sys

if any("default_worker.py" in word for word in sys.orig_argv):
    import torch

    torch.cuda.reset_peak_memory_stats = lambda device=None: None
"""


@contextmanager
def tuft(environment: Path, model: str, folder: Path) -> Generator[Server]:
    port = free_port()
    config = {
        "checkpoint_dir": str(folder / "checkpoints"),
        "authorized_users": {KEY: "benchmark"},
        "supported_models": [
            {
                "model_name": "tiny",
                "model_path": model,
                "max_model_len": CONTEXT,
                "max_lora_rank": RANK,
                "micro_batch_size": N_SEQUENCES,
                "capabilities": ["training"],
            }
        ],
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    (folder / "sitecustomize.py").write_text(_NO_GPU)
    variables = _variables(environment) | {
        "PYTHONPATH": str(folder),
        "RAY_OVERRIDE_RESOURCES": json.dumps({"GPU": 1}),
        "TUFT_HOME": str(folder),
    }
    command = [_bin(environment, "tuft"), "launch", "--port", str(port), "--config", "config.yaml"]
    url = f"http://127.0.0.1:{port}"
    with program(command, lambda: answers(f"{url}/api/v1/healthz"), folder, variables) as pid:
        python = _bin(environment, "python")
        yield Server("TuFT", url, KEY, "tiny", python, pid, pid, offers=("train",))


@contextmanager
def skyrl(environment: Path, model: str, folder: Path) -> Generator[Server]:
    port = free_port()
    settings = {
        "max_lora_adapters": MOST_MODELS,
        "max_lora_rank": RANK,
        "train_micro_batch_size": N_SEQUENCES,
        "sample_max_num_sequences": N_AT_ONCE,
    }
    command = [
        *(_bin(environment, "uv"), "run", "-m", "skyrl.tinker.api"),
        *("--host", "127.0.0.1", "--port", str(port), "--base-model", model, "--backend", "jax"),
        *("--backend-config", json.dumps(settings)),
        *("--checkpoints-base", str(folder / "checkpoints")),
        *("--database-url", f"sqlite:///{folder / 'skyrl.db'}"),
    ]
    variables = _variables(environment) | {"JAX_PLATFORMS": "cpu"}
    url = f"http://127.0.0.1:{port}"
    with program(command, lambda: answers(f"{url}/api/v1/healthz"), folder, variables) as pid:
        _, gateway, *_ = cpu_by_process(pid)  # a program around it has started it
        yield Server("SkyRL", url, KEY, model, _bin(environment, "python"), pid, gateway)


def _bin(environment: Path, name: str) -> str:
    return str(environment.absolute() / "bin" / name)


def _variables(environment: Path) -> dict[str, str]:
    """As in a shell in which it was activated; nothing is asked of a hub."""
    folder = environment.absolute()
    path = os.pathsep.join([str(folder / "bin"), os.environ["PATH"]])
    offline = {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **offline, "PATH": path, "VIRTUAL_ENV": str(folder)}
