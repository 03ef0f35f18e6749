"""Which engine samples: the one that was asked for, or vLLM wherever it can run the model."""

import logging
from secrets import randbits
from typing import Protocol

from warren_gpu_worker.base_models.loading import chosen_dtype, load_base
from warren_gpu_worker.base_models.vision_inputs import VisionInputs
from warren_gpu_worker.sampler.engines.port import Engine
from warren_gpu_worker.sampler.engines.start_failures import start_failure
from warren_gpu_worker.sampler.engines.turn_ends import Endings
from warren_gpu_worker.sampler.engines.vllm.rendezvous import Place
from warren_gpu_worker.sampler.engines.vllm.startup import prepare_environment, why_not
from warren_gpu_worker.settings import GpuWorkerSettings

log = logging.getLogger(__name__)


class EngineUnavailable(ValueError):
    """The engine that was asked for can't run this model here; says why."""


class OpenEngine(Protocol):
    def __call__(
        self,
        folder: str,
        settings: GpuWorkerSettings,
        endings: Endings,
        vision: VisionInputs | None = None,
        place: Place | None = None,
    ) -> Engine: ...


def open_engine(
    folder: str,
    settings: GpuWorkerSettings,
    endings: Endings,
    vision: VisionInputs | None = None,
    place: Place | None = None,
) -> Engine:
    """Load the model in this folder; with `vision`, prompts may have images; `place` is the first of several machines'.

    Raises `EngineUnavailable`, `ModelUnsupported`, and `OSError` or `ValueError` (from transformers)
    when the folder holds no such model.
    """
    seed = randbits(31) if settings.seed is None else settings.seed
    obstacle = ""
    if settings.engine != "transformers":
        obstacle = why_not(
            folder,
            settings.device,
            sleeps=settings.takes_turns,
            n_stages=settings.vllm.pipeline_parallel,
        )
    if obstacle is None:
        seeded = settings.model_copy(update={"seed": seed})
        return _open_vllm(folder, seeded, endings, vision, place)
    if settings.takes_turns:
        raise EngineUnavailable(f"{obstacle}, so vllm.sleep can't be {settings.vllm.sleep}")
    if settings.vllm.n_gpus > 1:
        raise EngineUnavailable(
            f"{obstacle}, and no other engine spreads a model over {settings.vllm.n_gpus} devices;"
            " leave --tensor-parallel and --pipeline-parallel out"
        )
    if settings.engine == "vllm":
        raise EngineUnavailable(f"{obstacle}; give --engine transformers, or leave it out")
    return _open_transformers(folder, settings, endings, seed=seed, sees=vision is not None)


def _open_vllm(
    folder: str,
    settings: GpuWorkerSettings,
    endings: Endings,
    vision: VisionInputs | None,
    place: Place | None,
) -> Engine:
    prepare_environment(settings.device)
    from warren_gpu_worker.sampler.engines.vllm.engine import VllmEngine

    try:
        return VllmEngine(folder, settings, endings, vision, place)
    except Exception as error:  # vLLM raises whatever its parts raise
        log.exception("vLLM did not start")
        raise EngineUnavailable(f"vLLM did not start: {start_failure(error)}") from error


def _open_transformers(
    folder: str, settings: GpuWorkerSettings, endings: Endings, *, seed: int, sees: bool
) -> Engine:
    from warren_gpu_worker.sampler.engines.transformers.engine import (
        EngineLimits,
        TransformersEngine,
    )

    dtype = chosen_dtype(settings.dtype, settings.device)
    base = load_base(folder, dtype, settings.device)
    limits = EngineLimits.of(settings)
    return TransformersEngine(base, endings=endings, limits=limits, seed=seed, sees=sees)
