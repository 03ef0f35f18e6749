"""`warren gpu-worker`: samples from base models and trains policies on them.

Invariant: importing this module loads nothing heavy; `warren --help` reads it.
"""

import sys
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar, cast

from cyclopts import Parameter

if TYPE_CHECKING:
    from warren_gpu_worker.settings import GpuWorkerSettings

ErrorT = TypeVar("ErrorT", bound=Exception)


def gpu_worker(
    *,
    broker: Annotated[str | None, Parameter(env_var="WARREN_BROKER_URL")] = None,
    base_model: Annotated[
        tuple[str, ...], Parameter(env_var="WARREN_BASE_MODELS", negative=())
    ] = (),
    checkpoints: Annotated[str | None, Parameter(env_var="WARREN_CHECKPOINT_URL")] = None,
    roles: Annotated[str, Parameter(env_var="WARREN_ROLES")] = "sampler,trainer",
    dtype: str = "float32",
    device: str = "auto",
    devices: int = 1,
    engine: Annotated[str, Parameter(env_var="WARREN_ENGINE")] = "auto",
    on_new_weights: str = "keep",
    gpu_memory_share: float = 0.9,
    max_adapter_rank: int = 64,
    threads: int = 1,
    max_batch: int = 256,
    vllm_sleep: str = "never",
    seed: int | None = None,
    max_models: int = 16,
    micro_batch_tokens: int = 16_384,
    checkpoint_activations: Annotated[bool, Parameter(negative=())] = False,
    adapter: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    log_dir: str | None = None,
) -> None:
    """Sample from base models and train policies on them.

    Start one for each GPU, on any machine that reaches the broker and the checkpoints: they share
    the work, and when one dies the others go on. Small models do without a GPU.

    For example:
        warren gpu-worker --broker amqp://localhost --base-model warren/tiny
        warren gpu-worker --base-model Qwen/Qwen3-0.6B=/models/qwen --roles sampler
        warren gpu-worker --base-model Qwen/Qwen3-0.6B --checkpoints s3://bucket/warren

    Parameters
    ----------
    broker
        Where RabbitMQ is, for example `amqp://user:password@host:5672/vhost`.
    base_model
        A base model to offer: NAME=FOLDER, a folder, a name on the Hugging Face hub, or a built-in
        one (`warren/tiny`, `warren/tiny-lora`); may be given several times.
    checkpoints
        fsspec URL for policies and checkpoints, the same for all workers; the folder `checkpoints`
        in $WARREN_HOME (`~/.warren`) if not given.
    roles
        `sampler`, `trainer`, or both.
    dtype
        Of the weights: float32, bfloat16 or float16; the same for all workers of a run.
    device
        `cpu`, `cuda`, `cuda:1`, …; `auto` takes a GPU if there is one.
    devices
        How many GPUs of this machine each model is spread over while it is trained; then the worker
        trains one model at a time.
    engine
        What samples: `vllm`, `transformers`, or `auto`: vLLM where it can run the model.
    on_new_weights
        What turns in flight do when their policy is updated: `keep` (go on, with what is cached),
        `recompute` (go on, with the cache computed anew) or `drain` (finish first).
    gpu_memory_share
        Share of the GPU's memory that vLLM takes; less of it leaves room for a trainer on the same GPU.
    max_adapter_rank
        Largest rank of the adapters that vLLM samples with: 8, 16, 32, 64, 128, 256, 320 or 512.
    threads
        CPU threads of each child process; more than 1 helps large models only.
    max_batch
        Most sequences that are sampled at once.
    vllm_sleep
        `while_training`: vLLM lends its memory to a full-parameter model that this worker trains,
        and they take turns. `never`: both have to fit.
    seed
        Of the sampler's random numbers; each sampler draws one where none is given.
    max_models
        Most LoRA models that are trained at once; one whose weights are all trained has the worker
        to itself.
    micro_batch_tokens
        Most tokens of one forward pass of the trainer: fewer need less memory.
    checkpoint_activations
        Train with less memory and a third more work, by computing activations twice.
    adapter
        An adapter that training may start with, NAME=FOLDER (or its URL), in peft's format; may be
        given several times.
    log_dir
        Folder for the output of the child processes; it comes with the worker's own if not given.
    """
    if broker is None:
        _fail(
            "a GPU worker needs a broker",
            "Give --broker amqp://host or set WARREN_BROKER_URL; `warren up` runs without one.",
        )
    given: dict[str, object] = {
        "base_models": _base_models(base_model),
        "roles": [role.strip() for role in roles.split(",")],
        "dtype": dtype,
        "device": device,
        "devices": devices,
        "engine": engine,
        "on_new_weights": on_new_weights,
        "vllm": {
            "gpu_memory_share": gpu_memory_share,
            "max_adapter_rank": max_adapter_rank,
            "sleep": vllm_sleep,
        },
        "n_threads": threads,
        "max_batch": max_batch,
        "seed": seed,
        "max_models": max_models,
        "micro_batch_tokens": micro_batch_tokens,
        "checkpoint_activations": checkpoint_activations,
        "adapters": _adapters(adapter),
        "log_dir": log_dir,
    }
    _run(broker, _settings(given | ({"checkpoint_url": checkpoints} if checkpoints else {})))


def _base_models(choices: tuple[str, ...]) -> dict[str, str]:
    from warren_gpu_worker.base_models import UnknownBaseModel, resolve_base_models
    from warren_gpu_worker.settings import warren_home

    if not choices:
        _fail("which base models should it offer?", "Give --base-model, for example warren/tiny.")
    try:
        return resolve_base_models(choices, warren_home() / "models")
    except (UnknownBaseModel, OSError) as error:
        _fail(str(error))


def _adapters(choices: tuple[str, ...]) -> dict[str, str]:
    """Name -> folder or URL."""
    given: dict[str, str] = {}
    for choice in choices:
        name, _, folder = choice.partition("=")
        if not name or not folder:
            _fail(f"--adapter {choice} is not NAME=FOLDER")
        given[name] = folder
    return given


def _settings(given: dict[str, object]) -> "GpuWorkerSettings":
    from pydantic import ValidationError

    from warren_gpu_worker.settings import GpuWorkerSettings
    from warren_schemas.explain import explain

    try:
        return GpuWorkerSettings.model_validate(given)
    except ValidationError as error:
        _fail("; ".join(explain(error, GpuWorkerSettings)))


def _run(broker_url: str, settings: "GpuWorkerSettings") -> None:
    import asyncio

    import uvloop

    from warren_broker.errors import BrokerError
    from warren_broker.worker.lifecycle import until_stopped
    from warren_gpu_worker.sampler.process import SamplerBroken

    _configure_logs()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(until_stopped(_serve(broker_url, settings)))
    except (BrokerError, ExceptionGroup) as error:
        if broken := _find(error, SamplerBroken):
            _fail(str(broken), "Correct --base-model, or leave sampling out by --roles trainer.")
        if away := _find(error, BrokerError):
            _fail(str(away), "Start RabbitMQ, or correct --broker (WARREN_BROKER_URL).")
        raise


async def _serve(broker_url: str, settings: "GpuWorkerSettings") -> None:
    from warren_broker.connect import open_broker
    from warren_broker.worker.lifecycle import calm_garbage_collector
    from warren_gpu_worker.service import serve_gpu_worker

    calm_garbage_collector()
    async with open_broker(broker_url, name="gpu-worker") as broker:
        await serve_gpu_worker(broker, settings)


def _configure_logs() -> None:
    """Ours from INFO on, those of libraries from WARNING on."""
    import logging

    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    for package in ("warren_broker", "warren_gpu_worker"):
        logging.getLogger(package).setLevel(logging.INFO)
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # its failures are told by our own words


def _find(error: Exception, kind: type[ErrorT]) -> ErrorT | None:
    """The first error of this kind in what may be a group of groups."""
    if isinstance(error, ExceptionGroup):
        below = cast("ExceptionGroup[Exception]", error).exceptions
        return next((found for e in below if (found := _find(e, kind))), None)
    return error if isinstance(error, kind) else None


def _fail(problem: str, hint: str | None = None) -> NoReturn:
    """End with one line that says what is wrong, and one that says what to do."""
    print(f"error: {' '.join(problem.split())}", file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
    raise SystemExit(1)
