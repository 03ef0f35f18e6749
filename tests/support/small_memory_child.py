"""A sampler's child whose device has memory for a few requests at once, and for no long prompt."""

import torch
from torch import Tensor

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.child import main
from warren_gpu_worker.sampler.engines.port import Engine
from warren_gpu_worker.sampler.engines.transformers.engine import EngineLimits, TransformersEngine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
from warren_gpu_worker.settings import GpuWorkerSettings

MOST_REQUESTS = 3
MOST_TOKENS = 100


def require_memory(_: object, __: object, arguments: dict[str, Tensor]) -> None:
    """Called before each pass over the weights, as prompts are read and as tokens are sampled."""
    n_rows, n_columns = arguments["input_ids"].shape
    if n_rows > MOST_REQUESTS or n_columns > MOST_TOKENS:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0")


def open_small(
    folder: str,
    settings: GpuWorkerSettings,
    endings: Endings,
    vision: VisionInputs | None = None,
    place: Place | None = None,
) -> Engine:
    base = load_base(folder)
    base.register_forward_pre_hook(require_memory, with_kwargs=True)
    return TransformersEngine(base, endings=endings, limits=EngineLimits.of(settings), seed=0)


if __name__ == "__main__":
    main.main(open_small)
