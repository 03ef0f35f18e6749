"""A trainer's child that loses its device with `POISON`, as by an illegal access in a kernel.

No machine of the tests has a device to lose: from then on everything that trains fails as it would.
"""

from collections.abc import Callable

import torch

from warren_gpu_worker.losses.value import LossValue
from warren_gpu_worker.trainer.child import main
from warren_gpu_worker.trainer.training import gradient
from warren_schemas.config import DroLoss

POISON = DroLoss(beta=666.0)


def losing_device(real: Callable[..., LossValue]) -> Callable[..., LossValue]:
    lost: list[bool] = []

    def compute(tokens: object, objective: gradient.Objective, **rest: object) -> LossValue:
        if objective.loss == POISON:
            lost.append(True)
        if lost:
            raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
        return real(tokens, objective, **rest)

    return compute


if __name__ == "__main__":
    gradient.compute_objective = losing_device(gradient.compute_objective)
    main.main()
