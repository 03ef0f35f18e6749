# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
"""8 LoRA models trained together against the same ones alone: `python -m benchmarks.trainer.equality`.

How far apart their weights are after some optimizer steps, relative to the norm of the weights, the
worst of the models; by learning rate and AdamW's epsilon. The control trains each model alone, twice, the second time
with the rows of each batch in reverse order: the same sums in another order, and nothing shared.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from tests.support.trainer import BASE, done, forward_backward, random_batch
from torch import Tensor
from transformers.utils.logging import disable_progress_bar

from warren_gpu_worker.base_models.tiny import ensure_tiny
from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_schemas.config import CrossEntropyLoss, LoraUpdate
from warren_schemas.ids import ModelId
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import ForwardBackward, ModelSpec, OptimStep

N_MODELS, N_ROWS, N_TOKENS = 8, 8, 32
STEPS = (1, 4, 20)
SETTINGS = ((1e-3, 1e-8), (1e-4, 1e-8), (1e-4, 1e-6), (1e-4, 1e-4), (1e-4, 1.0))
"""(learning rate, epsilon)"""
MODELS = [ModelId(f"model_{n}") for n in range(N_MODELS)]

Apply = Callable[[Engine, int, list[ForwardBackward]], None]


def together(engine: Engine, number: int, ops: list[ForwardBackward]) -> None:
    orders = [(model, number, op) for model, op in zip(MODELS, ops, strict=True)]
    for outcome in engine.apply_batched(orders):
        done(outcome)


def alone(engine: Engine, number: int, ops: list[ForwardBackward]) -> None:
    for model, op in zip(MODELS, ops, strict=True):
        done(engine.apply(model, number, op))


def reversed_alone(engine: Engine, number: int, ops: list[ForwardBackward]) -> None:
    batches = [reverse(op.batch) for op in ops]
    alone(
        engine,
        number,
        [op.model_copy(update={"batch": b}) for op, b in zip(ops, batches, strict=True)],
    )


def reverse(batch: TokenBatch) -> TokenBatch:
    """The sequences in reverse order; all are equally long."""

    def turned(values_N: np.ndarray[tuple[int], np.dtype[np.generic]]) -> object:
        return np.ascontiguousarray(values_N.reshape(N_ROWS, N_TOKENS)[::-1]).ravel()

    names = ("ids_N", "mask_N", "logprobs_N", "weights_N")
    return batch.model_copy(update={name: turned(getattr(batch, name)) for name in names})


def engine_of(folder: Path) -> Engine:
    base = str(ensure_tiny(BASE, folder))
    engine = Engine(EngineConfig({BASE: base}, str(folder / "checkpoints")))
    for place, model in enumerate(MODELS):
        spec = ModelSpec(base_model=BASE, update=LoraUpdate(rank=8, alpha=16.0), seed=place)
        done(engine.open(model, spec, checkpoint_url=None, next_op=1))
    return engine


def weights(engine: Engine) -> list[Tensor]:
    """Of each model, in one piece."""
    entries = engine._entries  # pyright: ignore[reportPrivateUsage]
    own = [entries[model].model.parameters.values() for model in MODELS]
    return [torch.cat([w.detach().flatten().double() for w in some]) for some in own]


def train(folder: Path, apply: Apply, learning_rate: float, eps: float) -> Iterator[list[Tensor]]:
    """The weights after each step."""
    engine = engine_of(folder)
    for step in range(max(STEPS)):
        seeds = range(step * N_MODELS, (step + 1) * N_MODELS)
        lengths = [N_TOKENS] * N_ROWS
        ops = [forward_backward(random_batch(s, lengths), CrossEntropyLoss()) for s in seeds]
        apply(engine, 2 * step + 1, ops)
        for model in MODELS:
            update = OptimStep(learning_rate=learning_rate, clip_norm=1.0, eps=eps)
            done(engine.apply(model, 2 * step + 2, update))
        yield weights(engine)


def apart(found: Sequence[Tensor], expected: Sequence[Tensor]) -> float:
    pairs = zip(found, expected, strict=True)
    return max(float(torch.dist(a, b) / torch.linalg.vector_norm(b)) for a, b in pairs)


def main() -> None:
    disable_progress_bar()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)  # as the trainer's child has it
    shown = Table("learning rate", "eps", *(f"{n} steps: together, control" for n in STEPS))
    with TemporaryDirectory() as name:
        for setting in SETTINGS:
            sides = (together, reversed_alone, alone)
            cells: list[str] = []
            trained = zip(*(train(Path(name), side, *setting) for side in sides), strict=True)
            for step, (shared, control, own) in enumerate(trained, 1):
                if step in STEPS:
                    cells.append(f"{apart(shared, own):.1e}, {apart(control, own):.1e}")
            shown.add_row(*(f"{value:g}" for value in setting), *cells)
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
