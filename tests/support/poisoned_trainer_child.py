"""A trainer's child that loses its device with `POISON`, as by an illegal access in a kernel.

No machine of the tests has a device to lose: from then on every call into torch fails as it would.
"""

import torch
from tests.support.failing_torch import FailingTorch

from warren_gpu_worker.trainer.child.engine import Engine
from warren_gpu_worker.trainer.child.main import main
from warren_schemas.config import DroLoss
from warren_schemas.ids import ModelId
from warren_schemas.training import ForwardBackward, OpBody, OpOutcome

POISON = DroLoss(beta=666.0)


class PoisonedEngine(Engine):
    def apply(self, model_id: ModelId, number: int, body: OpBody) -> OpOutcome:
        if isinstance(body, ForwardBackward) and body.loss == POISON:
            error = torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
            FailingTorch(error).__enter__()
        return super().apply(model_id, number, body)


if __name__ == "__main__":
    main(PoisonedEngine)
