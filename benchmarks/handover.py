# pyright: reportUnknownMemberType=false
"""Full weights from a trainer to a sampler on one machine: `python -m benchmarks.handover [--width 768] [--layers 12]`.

Seconds to publish, to fetch and to load, with each type of weights, with the link that a trainer leaves in memory
and without it; and for how long sampling stands still while the next version comes, the engine being transformers'.
"""

import argparse
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import Qwen3Config, Qwen3ForCausalLM

from warren_gpu_worker.policy_copies import LocalCopies
from warren_gpu_worker.sampler.engines.port import PolicyKey, Request
from warren_gpu_worker.sampler.engines.transformers.engine import EngineLimits, TransformersEngine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.settings import GpuWorkerSettings
from warren_gpu_worker.weights import (
    PolicyFiles,
    as_sampled,
    fetch_policy,
    view_policy,
    write_policy,
)
from warren_schemas.config import Sampling

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


def longest_pause(model: Qwen3ForCausalLM, url: str) -> tuple[float, float]:
    """Seconds of a usual step, and of the longest one while a version is fetched beside it and loaded."""
    settings = GpuWorkerSettings(base_models={"a": "a"}, device="cpu")
    engine = TransformersEngine(
        model, endings=Endings([1], str), limits=EngineLimits.of(settings), seed=0
    )
    engine.load(KEY, 0, None)
    prompts = np.random.default_rng(0).integers(3, 8192, (N_TURNS, 16)).astype(np.int32)
    engine.add_requests(
        [Request(i, KEY, p, Sampling(max_tokens=N_TOKENS)) for i, p in enumerate(prompts)]
    )
    steps = [timed(engine.step) for _ in range(N_BEFORE)]
    found: list[PolicyFiles] = []
    fetching = threading.Thread(target=lambda: found.append(fetch_policy(url)))
    fetching.start()
    while fetching.is_alive() and engine.has_work:
        steps.append(timed(engine.step))
    fetching.join()
    loading_s = timed(lambda: engine.load(KEY, 1, found[0]))
    steps.append(loading_s + timed(engine.step))
    while engine.has_work:
        engine.step()
    return float(np.median(steps)), max(steps[N_BEFORE:])


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
        url = (Path(store) / "last").as_uri()
        write_policy(view_policy(model), url)
        step_s, pause_s = longest_pause(model, url)
    Console().print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters", table)
    print(
        f"a step takes {1000 * step_s:.0f} ms; the longest while a version came {1000 * pause_s:.0f} ms"
    )


if __name__ == "__main__":
    main()
