# pyright: reportUnknownMemberType=false
"""A trainer's child whose device has memory for passes of `ROOM` positions and no more."""

import torch

from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.main import main
from warren_schemas.ids import ModelId
from warren_schemas.training import ModelSpec, OpOutcome

ROOM = 50


class SmallEngine(Engine):
    def open(
        self,
        model_id: ModelId,
        spec: ModelSpec,
        *,
        checkpoint_url: str | None,
        next_op: int,
        max_tokens: int | None = None,
    ) -> OpOutcome:
        outcome = super().open(
            model_id, spec, checkpoint_url=checkpoint_url, next_op=next_op, max_tokens=max_tokens
        )
        decoder = self._entries[model_id].model.network.decoder
        decoder.register_forward_pre_hook(_check, with_kwargs=True)
        return outcome


def _check(_: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
    if kwargs["input_ids"].numel() > ROOM:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")


if __name__ == "__main__":
    main(SmallEngine)
