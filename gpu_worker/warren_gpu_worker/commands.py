"""`warren gpu-worker`: samples from base models and trains policies on them.

Invariant: importing this module loads neither torch nor a broker's client, so that help is quick.
"""

import sys
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from warren_gpu_worker.options import GPU_DEFAULTS, Adapters, BaseModels, GpuOptions, UploadedModels
from warren_schemas.errors import ConfigurationError

if TYPE_CHECKING:
    from warren_gpu_worker.settings import GpuWorkerOptions, GpuWorkerSettings


def gpu_worker(
    *,
    broker: Annotated[str | None, Parameter(env_var="WARREN_BROKER_URL")] = None,
    base_model: BaseModels = (),
    adapter: Adapters = (),
    uploaded_models: UploadedModels = None,
    join: Annotated[bool, Parameter(negative=())] = False,
    options: GpuOptions = GPU_DEFAULTS,
) -> None:
    """Sample from base models and train policies on them.

    Start one for each GPU, on any machine that reaches the broker and the checkpoints: they share
    the work, and when one dies the others go on. Small models need no GPU.

    For example:
        warren gpu-worker --broker amqp://localhost --base-model warren/tiny
        warren gpu-worker --base-model Qwen/Qwen3-0.6B=/models/qwen --roles sampler
        warren gpu-worker --base-model Qwen/Qwen3-0.6B --checkpoints s3://bucket/warren
        warren gpu-worker --base-model Qwen/Qwen3-32B --devices 8 --machines 2 --rendezvous 10.0.0.1:29400 --join

    Parameters
    ----------
    broker
        URL of RabbitMQ, for example `amqp://user:password@host:5672/vhost`.
    join
        Join the trainer that listens at --rendezvous, or with --roles sampler the sampler there: use the devices of this
        machine for it, and do nothing else; this needs no broker.
    """
    if broker is None and not join:
        raise ConfigurationError(
            "a GPU worker needs a broker",
            hint="Give --broker amqp://host or set WARREN_BROKER_URL; `warren up` runs without one.",
        )
    if not base_model:
        raise ConfigurationError(
            "a GPU worker needs a base model", hint="Give --base-model, for example warren/tiny."
        )
    settings = _settings(base_model, adapter, uploaded_models, options, join=join)
    if settings.join:
        _join(settings)
    elif broker is not None:
        _run(broker, settings)


def _settings(
    base_models: Sequence[str],
    adapters: Sequence[str],
    models_url: str | None,
    options: "GpuWorkerOptions",
    *,
    join: bool,
) -> "GpuWorkerSettings":
    """Builds or downloads the base models."""
    from warren_gpu_worker.base_models import UnknownBaseModel
    from warren_gpu_worker.options import chosen
    from warren_gpu_worker.settings import warren_home

    others: dict[str, object] = {"join": join}
    if models_url is not None:
        others["models_url"] = models_url
    models_folder = warren_home() / "models"
    try:
        return chosen(
            options, base_models, adapters, models_folder=models_folder, tell=_tell, **others
        )
    except (UnknownBaseModel, OSError, ValueError) as error:
        raise ConfigurationError(str(error)) from error


def _join(settings: "GpuWorkerSettings") -> None:
    from warren_broker.worker.program import run_program
    from warren_gpu_worker.sampler.supervisor.greeting import SamplerBroken
    from warren_gpu_worker.sampler.supervisor.joining import join_sampler
    from warren_gpu_worker.trainer.supervisor.joining import join_trainer

    joins = join_sampler if settings.sampler_machines > 1 else join_trainer
    run_program(partial(joins, settings), {SamplerBroken: "Correct --device or --tensor-parallel."})


def _tell(what: str) -> None:
    print(f"{what} …", file=sys.stderr, flush=True)


def _run(broker_url: str, settings: "GpuWorkerSettings") -> None:
    from warren_broker.errors import BrokerError
    from warren_broker.worker.program import Hints, run_program
    from warren_gpu_worker.sampler.supervisor.greeting import SamplerBroken

    hints: Hints = {
        SamplerBroken: "Correct --base-model, or leave sampling out by --roles trainer.",
        BrokerError: "Start RabbitMQ, or correct --broker (WARREN_BROKER_URL).",
    }
    run_program(partial(_serve, broker_url, settings), hints)


async def _serve(broker_url: str, settings: "GpuWorkerSettings") -> None:
    from warren_broker.connect import open_broker
    from warren_broker.worker.lifecycle import calm_garbage_collector
    from warren_gpu_worker.service import serve_gpu_worker

    calm_garbage_collector()
    async with open_broker(broker_url, name="gpu-worker") as broker:
        await serve_gpu_worker(broker, settings)
