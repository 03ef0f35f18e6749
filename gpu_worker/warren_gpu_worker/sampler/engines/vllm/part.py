"""The part of vLLM that another machine's sampler has here: processes that do what that one's engine tells them."""

from vllm.engine.arg_utils import EngineArgs
from vllm.v1.executor.multiproc_executor import MultiprocExecutor

from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.engines.vllm import startup
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
from warren_gpu_worker.settings import GpuWorkerSettings


def compute_part(
    folder: str, settings: GpuWorkerSettings, place: Place, vision: VisionInputs | None
) -> None:
    """Return when one of them has ended; the others are ended then."""
    arguments = startup.engine_arguments(folder, settings, place)
    if vision:
        startup.enable_images(vision, arguments)
    config = EngineArgs(**arguments).create_engine_config(headless=True)  # pyright: ignore[reportArgumentType]
    executor = MultiprocExecutor(config, monitor_workers=False)
    executor.start_worker_monitor(inline=True)
