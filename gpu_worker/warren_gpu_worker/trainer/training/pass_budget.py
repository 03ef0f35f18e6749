# pyright: reportUnknownMemberType=false
"""Splits a loss into passes that fit into the device's memory.

Invariants:
- A model's budget only falls, by halves, and never below its longest sequence: so an op is tried a
  few times at most, and one that can't be cut any further fails with the reason.
- A loss is computed again only where the first try left nothing behind: the op has no gradient, or its
  window had none before it. Elsewhere `PassTooLarge` ends the process, as it does where other ranks wait;
  then the log is applied again from the newest checkpoint, with the smaller budget.
"""

import gc
import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from warren_gpu_worker.device_errors import is_out_of_memory
from warren_gpu_worker.trainer.errors import PassTooLarge
from warren_gpu_worker.trainer.training.gradient import LossOp, apply_loss
from warren_gpu_worker.trainer.training.trainable_model import TrainableModel
from warren_schemas.token_batch import TokenBatch
from warren_schemas.training import Forward, OpDone

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PassBudget:
    """Most tokens of one forward pass of a model."""

    max_tokens: int
    notice: str | None = None
    """What a person should know of it, until it is told."""

    def smaller_for(
        self, batch: TokenBatch, n_ranks: int = 1, *, splits: bool = False
    ) -> int | None:
        """The next budget to try; None where each pass has one sequence already (or its part of one)."""
        lengths_B = np.sort(batch.lengths_B)[::-1]
        if splits:
            lengths_B, n_ranks = -(-lengths_B // n_ranks), 1
        n_tokens = int(lengths_B[::n_ranks].sum())  # of the rank that has most
        smaller = max(int(lengths_B[0]), min(self.max_tokens, n_tokens) // 2)
        return smaller if smaller < min(self.max_tokens, n_tokens) else None

    def lower(self, max_tokens: int) -> None:
        self.notice = (
            f"the trainer had no memory for passes of {self.max_tokens} tokens and goes on with {max_tokens};"
            f" start the GPU worker with --micro-batch-tokens {max_tokens} or --checkpoint-activations"
        )
        self.max_tokens = max_tokens
        log.warning("%s", self.notice)

    def tell(self, done: OpDone) -> OpDone:
        """With what is to be told, once."""
        notice, self.notice = self.notice, None
        return done if notice is None else done.model_copy(update={"notice": notice})


def fitted_loss(
    model: TrainableModel, op: LossOp, budget: PassBudget, *, progress: Callable[[], None]
) -> OpDone:
    """`apply_loss`, in smaller passes where the device has no memory for larger ones.

    Raises what it does, and `PassTooLarge` where smaller ones would do and this process can't try them.
    """
    may_try_again = isinstance(op, Forward) or model.n_backward == 0
    n_ranks, splits = model.network.ranks.size, model.network.splits
    while True:
        smaller = None
        try:
            return budget.tell(
                apply_loss(model, op, max_tokens=budget.max_tokens, progress=progress)
            )
        except Exception as error:
            if is_out_of_memory(error):
                smaller = budget.smaller_for(op.batch, n_ranks, splits=splits)
            if smaller is None:
                raise
            if not may_try_again or n_ranks > 1:
                raise PassTooLarge(smaller, error) from error
        # Only here has the error let go of what was computed.
        _forget_try(model, op)
        budget.lower(smaller)


def _forget_try(model: TrainableModel, op: LossOp) -> None:
    model.network.end_pass()
    if not isinstance(op, Forward):
        model.optimizer.zero_grad(set_to_none=True)
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
