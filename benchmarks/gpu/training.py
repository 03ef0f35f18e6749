# pyright: reportUnknownMemberType=false
"""The trainer's engine, op by op, as its child process calls it."""

import os
from pathlib import Path

import numpy as np
import torch
from benchmarks.gpu.adapters import RANK
from numpy.typing import NDArray

from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.model_factory import EngineConfig
from warren_gpu_worker.trainer.supervisor.rank_processes import ENVIRONMENT
from warren_schemas.config import FullUpdate, LoraUpdate, PpoLoss
from warren_schemas.ids import ModelId
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import (
    Forward,
    ForwardBackward,
    ModelSpec,
    OpBody,
    OpDone,
    OptimStep,
    Policy,
    PublishPolicy,
)

BASE, MODEL = "base", ModelId("model_benchmark")
LEARNING_RATE = 1e-3

Ids = NDArray[np.int32]


class Model:
    """One model under training."""

    def __init__(
        self,
        folder: str,
        scratch: Path,
        update: str,
        *,
        device: str,
        dtype: str,
        micro_batch_tokens: int = 8192,
        checkpoint_activations: bool = False,
    ) -> None:
        for name, value in ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        torch.use_deterministic_algorithms(True, warn_only=True)
        setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # noqa: B010
        config = EngineConfig(
            {BASE: folder},
            (scratch / "checkpoints").as_uri(),
            device,
            dtype,
            micro_batch_tokens,
            checkpoint_activations,
            keep_policies=1,
        )
        self._engine = Engine(config)
        self._n_ops = 0
        how = FullUpdate() if update == "full" else LoraUpdate(rank=RANK, alpha=2.0 * RANK)
        spec = ModelSpec(base_model=BASE, update=how)
        outcome = self._engine.open(MODEL, spec, checkpoint_url=None, next_op=1)
        if not isinstance(outcome, OpDone):
            raise SystemExit(outcome.reason)

    def apply(self, op: OpBody) -> OpDone:
        self._n_ops += 1
        outcome = self._engine.apply(MODEL, self._n_ops, op)
        if not isinstance(outcome, OpDone):
            raise SystemExit(f"{op.kind}: {outcome.reason}")
        return outcome

    def update(self, batch: TokenBatch) -> None:
        self.apply(ForwardBackward(loss=PpoLoss(), batch=batch))
        self.apply(OptimStep(learning_rate=LEARNING_RATE, clip_norm=1.0))

    def publish(self) -> Policy:
        policy = self.apply(PublishPolicy()).policy
        assert policy is not None
        return policy

    def logprobs_N(self, batch: TokenBatch) -> NDArray[np.float32]:
        logprobs_N = self.apply(
            Forward(loss=PpoLoss(), batch=batch, return_logprobs=True)
        ).logprobs_N
        assert logprobs_N is not None
        return logprobs_N


def batch_of(
    prompts: list[Ids], sampled: list[Ids], logprobs: list[NDArray[np.float32]]
) -> TokenBatch:
    """Sampled tokens are trained on, with weights of either sign."""
    rng = np.random.default_rng(0)
    pairs = list(zip(prompts, sampled, strict=True))

    def laid_out(values: list[NDArray[np.float32]]) -> NDArray[np.float32]:
        rows = [
            np.concatenate([np.zeros(p.size, np.float32), v])
            for p, v in zip(prompts, values, strict=True)
        ]
        return np.concatenate(rows).astype(np.float32)

    n_trained = sum(ids.size for ids in sampled)
    weights = [np.full(ids.size, rng.normal() / n_trained, np.float32) for ids in sampled]
    return TokenBatch(
        ids_N=np.concatenate([np.concatenate(pair) for pair in pairs]).astype(np.int32),
        lengths_B=np.array([p.size + s.size for p, s in pairs], np.int32),
        mask_N=laid_out([np.ones(ids.size, np.float32) for ids in sampled]).astype(np.uint8),
        logprobs_N=laid_out(logprobs),
        weights_N=laid_out(weights),
    )


def random_batch(vocabulary: int, n_rows: int, n_prompt: int, n_sampled: int) -> TokenBatch:
    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, vocabulary, n_prompt).astype(np.int32) for _ in range(n_rows)]
    sampled = [rng.integers(3, vocabulary, n_sampled).astype(np.int32) for _ in range(n_rows)]
    logprobs = [-rng.uniform(3.0, 5.0, n_sampled).astype(np.float32) for _ in range(n_rows)]
    return batch_of(prompts, sampled, logprobs)
