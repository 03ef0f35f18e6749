"""A sampler's child that gathers its machines, and then samples on this one alone."""

from warren_gpu_worker.base_models import load_base
from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.child import main
from warren_gpu_worker.sampler.engines.port import Engine
from warren_gpu_worker.sampler.engines.transformers.engine import EngineLimits, TransformersEngine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
from warren_gpu_worker.settings import GpuWorkerSettings


def open_alone(
    folder: str,
    settings: GpuWorkerSettings,
    endings: Endings,
    vision: VisionInputs | None = None,
    place: Place | None = None,
) -> Engine:
    assert place is not None
    limits = EngineLimits.of(settings)
    return TransformersEngine(load_base(folder), endings=endings, limits=limits, seed=0)


if __name__ == "__main__":
    main.main(open_alone)
