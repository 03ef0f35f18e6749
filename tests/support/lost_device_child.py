"""A sampler's child whose device fails as soon as something is computed."""

import torch

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.child import main
from warren_gpu_worker.sampler.engines.port import Engine
from warren_gpu_worker.sampler.engines.transformers.engine import EngineLimits, TransformersEngine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
from warren_gpu_worker.settings import GpuWorkerSettings


def fail(*_: object) -> None:
    raise torch.AcceleratorError("CUDA error: uncorrectable ECC error encountered\nCUDA kernel")


def open_lost(
    folder: str,
    settings: GpuWorkerSettings,
    endings: Endings,
    vision: VisionInputs | None = None,
    place: Place | None = None,
) -> Engine:
    base = load_base(folder)
    base.register_forward_pre_hook(fail)
    return TransformersEngine(base, endings=endings, limits=EngineLimits.of(settings), seed=0)


if __name__ == "__main__":
    main.main(open_lost)
