"""A sampler's child that gathers its machines, and whose engine then fails, as vLLM does where another machine is lost."""

from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.child import main
from warren_gpu_worker.sampler.engines.port import Engine
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
from warren_gpu_worker.settings import GpuWorkerSettings


def open_failing(
    folder: str,
    settings: GpuWorkerSettings,
    endings: Endings,
    vision: VisionInputs | None = None,
    place: Place | None = None,
) -> Engine:
    raise RuntimeError("Connection closed by peer")


if __name__ == "__main__":
    main.main(open_failing)
