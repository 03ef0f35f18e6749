"""A trainer's child whose device fails: at the first pass, or, told so, before anything is computed."""

import os

import torch
from tests.support.failing_torch import FailingTorch
from torch.nn.modules.module import register_module_forward_pre_hook

from warren_gpu_worker.trainer.child.main import main

AT_ONCE = "WARREN_TEST_LOST_AT_ONCE"


def gone() -> Exception:
    return torch.AcceleratorError("CUDA error: no CUDA-capable device is detected")


def fail(*_: object) -> None:
    raise gone()


if __name__ == "__main__":
    if AT_ONCE in os.environ:
        with FailingTorch(gone()):
            main()
    else:
        register_module_forward_pre_hook(fail)
        main()
