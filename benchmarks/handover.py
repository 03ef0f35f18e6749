# pyright: reportUnknownMemberType=false
"""Weights from a trainer to a sampler on one machine: `python -m benchmarks.handover [--width 768] [--layers 12]`.

Seconds to publish and to fetch full weights, with each type of weights, with the link that a trainer leaves in memory
and without it; and for how long each engine's sampling stands still while the next version is fetched, and while it is
loaded, of full weights and of an adapter of rank 32 on all layers.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from rich.console import Console
from rich.table import Table
from transformers import Qwen3Config, Qwen3ForCausalLM

from warren_gpu_worker.policy_copies import LocalCopies
from warren_gpu_worker.sampler.engines.choice import open_engine
from warren_gpu_worker.sampler.engines.port import Engine, PolicyKey, Request, Stager
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.settings import EngineName, GpuWorkerSettings, VllmSettings
from warren_gpu_worker.weights import (
    WEIGHTS_FILE,
    PolicyFiles,
    PolicyKind,
    as_sampled,
    fetch_policy,
    view_policy,
    write_policy,
)
from warren_schemas.config import Sampling

RANK = 32
KEY = PolicyKey("model_handover")
N_TURNS, N_TOKENS, N_BEFORE = 4, 60, 10
ROUNDS = 3


def made(width: int, n_layers: int) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=8192,
            hidden_size=width,
            intermediate_size=4 * width,
            num_hidden_layers=n_layers,
            num_attention_heads=width // 64,
            num_key_value_heads=width // 64,
            head_dim=64,
            max_position_embeddings=512,
            tie_word_embeddings=True,
        )
    ).eval()


def timed(work: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    work()
    return time.perf_counter() - begun_s


def hand_over(
    model: Qwen3ForCausalLM, store: Path, dtype: torch.dtype | None, *, links: bool
) -> tuple[float, float, int]:
    """Seconds to publish and to fetch, the best of some rounds each, and the bytes."""
    copies, size_bytes = LocalCopies(), 0
    publishing: list[float] = []
    fetching: list[float] = []
    for round_ in range(ROUNDS):
        url = (store / f"{dtype}-{links}" / f"v{round_}").as_uri()

        def publish(url: str = url) -> None:
            nonlocal size_bytes
            size_bytes = write_policy(
                as_sampled(view_policy(model), dtype), url, copies if links else None
            )

        publishing.append(timed(publish))
        fetching.append(timed(lambda url=url: touch(fetch_policy(url))))
    copies.close()
    return min(publishing), min(fetching), size_bytes


def touch(files: PolicyFiles) -> None:
    """Read what was only mapped."""
    for tensor in files.tensors.values():
        tensor.view(torch.uint8)[::4096].sum()


def opened(name: EngineName, folder: str, kind: PolicyKind) -> Engine:
    vllm = VllmSettings(max_adapters=2 if kind == "lora" else 0, max_adapter_rank=RANK)
    settings = GpuWorkerSettings(
        base_models={"a": folder}, device="cpu", engine=name, vllm=vllm, max_batch_tokens=8192
    )
    return open_engine(folder, settings, Endings([1], str))


def pauses(engine: Engine, url: str) -> tuple[float, float, float, float]:
    """Seconds of a usual step, of the longest one while a version is fetched beside it as samplers do, of loading
    that, and of loading one that was only fetched."""
    engine.load(KEY, 1, fetch_policy(url))
    prompts = np.random.default_rng(0).integers(3, 8192, (N_TURNS, 16)).astype(np.int32)
    engine.add_requests(
        [Request(i, KEY, p, Sampling(max_tokens=N_TOKENS)) for i, p in enumerate(prompts)]
    )
    steps = [timed(engine.step) for _ in range(N_BEFORE)]
    found: list[PolicyFiles] = []
    fetching = threading.Thread(target=lambda: found.append(staged(engine, url)))
    fetching.start()
    while fetching.is_alive() and engine.has_work:
        steps.append(timed(engine.step))
    fetching.join()
    loading_s = timed(lambda: engine.load(KEY, 2, found[0]))
    fetched = fetch_policy(url)
    at_once_s = timed(lambda: engine.load(KEY, 3, fetched))
    engine.cancel(range(N_TURNS))
    longest_s = max(steps[N_BEFORE:], default=0.0)
    return float(np.median(steps)), longest_s, loading_s, at_once_s


def staged(engine: Engine, url: str) -> PolicyFiles:
    files = fetch_policy(url)
    return engine.stage(files) if isinstance(engine, Stager) else files


def adapted(model: Qwen3ForCausalLM) -> PeftModel:
    config = LoraConfig(
        task_type="CAUSAL_LM", r=RANK, target_modules="all-linear", init_lora_weights=False
    )
    return cast("PeftModel", get_peft_model(model, config))


def tell_pauses(model: Qwen3ForCausalLM, store: Path) -> Table:
    """Last, for it leaves an adapter in the model."""
    folder = str(store / "base")
    model.save_pretrained(folder)
    urls: dict[PolicyKind, str] = {kind: (store / kind).as_uri() for kind in WEIGHTS_FILE}
    write_policy(view_policy(model), urls["full"])
    write_policy(view_policy(adapted(model)), urls["lora"])
    columns = ("ms of a step", "longest while fetching", "ms to load", "where nothing was staged")
    table = Table("engine", "weights", *columns)
    for name in ("transformers", "vllm"):
        for kind, url in urls.items():
            found = pauses(opened(name, folder, kind), url)
            table.add_row(name, kind, *(f"{1000 * seconds:.1f}" for seconds in found))
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    given = parser.parse_args()
    model = made(given.width, given.layers)
    table = Table("weights", "link", "MiB", "s to publish", "s to fetch")
    with tempfile.TemporaryDirectory() as store:
        for dtype in (None, torch.bfloat16):
            for links in (False, True):
                publish_s, fetch_s, n_bytes = hand_over(model, Path(store), dtype, links=links)
                name = "float32" if dtype is None else "bfloat16"
                table.add_row(
                    name,
                    "yes" if links else "no",
                    f"{n_bytes / 2**20:.0f}",
                    f"{publish_s:.2f}",
                    f"{fetch_s:.2f}",
                )
        Console().print(
            f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters", table
        )
        Console().print(tell_pauses(model, Path(store)))


if __name__ == "__main__":
    main()
