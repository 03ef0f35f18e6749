# pyright: reportUnknownMemberType=false
"""What a turn costs the sampler's engine: `python -m benchmarks.sampler`.

Turns of two tokens on `warren/tiny`, against a bare lockstep loop (one padded batch, prefill and
decode with transformers' cache) on the same prompts in the same run. "one group" asks 16 times for
each prompt, as the members of a group do at their first turn; "mixed" are transcripts of 1 to 4
turns. Every figure is CPU microseconds for one turn on one thread, the median of many rounds.
"""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from transformers import PreTrainedModel

from warren_gpu_worker.base_models import load_base, resolve_base_models
from warren_gpu_worker.sampler.engines.port import PolicyKey, Request
from warren_gpu_worker.sampler.engines.transformers.engine import EngineLimits, TransformersEngine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_schemas.config import Sampling

ROUNDS = 30
N_TOKENS = 2
GROUP = 16
Prompts = list[NDArray[np.int32]]


def mixed_prompts(rng: np.random.Generator, n: int) -> Prompts:
    return [rng.integers(2, 56, 2 + 3 * int(rng.integers(0, 4))).astype(np.int32) for _ in range(n)]


def group_prompts(rng: np.random.Generator, n: int) -> Prompts:
    distinct = mixed_prompts(rng, -(-n // GROUP))
    return [distinct[i // GROUP] for i in range(n)]


def engine_round(base: PreTrainedModel) -> Callable[[Prompts], None]:
    limits = EngineLimits(max_batch=256, max_batch_tokens=262_144, policy_memory_bytes=1 << 30)
    engine = TransformersEngine(base, endings=Endings((), str), limits=limits)
    key = PolicyKey("model")
    engine.load(key, 0, None)
    sampling = Sampling(max_tokens=N_TOKENS)

    def sample(prompts: Prompts) -> None:
        engine.add_requests([Request(i, key, prompt, sampling) for i, prompt in enumerate(prompts)])
        while engine.has_work:
            engine.step()

    return sample


def lockstep_round(base: PreTrainedModel) -> Callable[[Prompts], None]:
    model = cast(Any, base)

    @torch.inference_mode()
    def sample(prompts: Prompts) -> None:
        length = max(prompt.size for prompt in prompts)
        ids_BT = torch.tensor([[0] * (length - p.size) + p.tolist() for p in prompts])
        mask_BT = torch.tensor([[0] * (length - p.size) + [1] * p.size for p in prompts])
        cache = None
        for _ in range(N_TOKENS):
            position_BT = (mask_BT.cumsum(-1) - 1).clamp(min=0)[:, -ids_BT.shape[1] :]
            out = model(
                input_ids=ids_BT,
                attention_mask=mask_BT,
                position_ids=position_BT,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache = out.past_key_values
            logprobs_BV = out.logits[:, -1].log_softmax(-1)
            ids_BT = torch.multinomial(logprobs_BV.exp(), 1)
            logprobs_BV.gather(1, ids_BT).tolist()
            mask_BT = torch.cat([mask_BT, torch.ones_like(ids_BT)], 1)

    return sample


def cpu_us(sample: Callable[[Prompts], None], rounds: list[Prompts]) -> float:
    """Median CPU microseconds for one turn."""
    sample(rounds[0])
    costs: list[float] = []
    for prompts in rounds:
        started_s = time.process_time()
        sample(prompts)
        costs.append((time.process_time() - started_s) / len(prompts) * 1e6)
    return statistics.median(costs)


def measure(base: PreTrainedModel) -> Table:
    table = Table("prompts", "requests", "lockstep us/turn", "engine us/turn", "ratio")
    rng = np.random.default_rng(0)
    for name, make in (("one group", group_prompts), ("mixed", mixed_prompts)):
        for n in (256, 64, 16, 1):
            rounds = [make(rng, n) for _ in range(ROUNDS)]
            plain = cpu_us(lockstep_round(base), rounds)
            ours = cpu_us(engine_round(base), rounds)
            table.add_row(name, str(n), f"{plain:.0f}", f"{ours:.0f}", f"{ours / plain:.2f}")
    return table


def main() -> None:
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder:
        models = resolve_base_models(["warren/tiny"], Path(folder))
        Console().print(measure(load_base(models["warren/tiny"])))


if __name__ == "__main__":
    main()
