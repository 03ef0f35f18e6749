"""The options of whatever runs a GPU worker: how they are called, and what is no plain value.

Invariant: importing this module loads neither torch nor a broker's client.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren_broker.options import name_options
from warren_gpu_worker.settings import GpuWorkerOptions, GpuWorkerSettings, VllmSettings


def _in_home(default: str) -> str:
    """The same wherever the help is printed."""
    return f"{default.rpartition('/')[2]} in WARREN_HOME"


def _words(default: frozenset[str]) -> str:
    return ",".join(sorted(default))


name_options(
    GpuWorkerOptions,
    {
        "checkpoint_url": Parameter(
            name="--checkpoints", env_var="WARREN_CHECKPOINT_URL", show_default=_in_home
        ),
        "roles": Parameter(env_var="WARREN_ROLES", n_tokens=1, show_default=_words),
        "engine": Parameter(env_var="WARREN_ENGINE"),
        "may_load": Parameter(negative=()),
        "vllm": Parameter(name="*"),
        "n_threads": Parameter(name="--threads"),
    },
)
name_options(VllmSettings, {"sleep": Parameter(name="--vllm-sleep")})

GpuOptions = Annotated[GpuWorkerOptions, Parameter(name="*")]
"""All of them, as a parameter of a command; what was not given is not set."""
GPU_DEFAULTS = GpuWorkerOptions()

BaseModels = Annotated[
    tuple[str, ...],
    Parameter(
        name="--base-model",
        env_var="WARREN_BASE_MODELS",
        negative=(),
        help="A base model to offer: NAME=FOLDER, a folder, a name on the Hugging Face hub, or a"
        " built-in one (warren/tiny, warren/tiny-lora, warren/tiny-long); repeatable.",
    ),
]
Adapters = Annotated[
    tuple[str, ...],
    Parameter(
        name="--adapter",
        negative=(),
        help="An adapter that training may start with, NAME=FOLDER (or its URL), in peft's format;"
        " repeatable.",
    ),
]


UploadedModels = Annotated[
    str | None,
    Parameter(
        name="--uploaded-models",
        env_var="WARREN_MODELS_URL",
        help="Where gateways keep the base models that users upload, as their own option of this name says; by default"
        " base-models in WARREN_HOME. They are loaded if --may-load 'warren/uploaded-*' is given.",
    ),
]


def chosen(
    options: GpuWorkerOptions,
    base_models: Sequence[str],
    adapters: Sequence[str],
    *,
    models_folder: Path,
    tell: Callable[[str], None],
    **defaults: object,
) -> GpuWorkerSettings:
    """The settings: what was given, else these defaults, else the model's.

    Builds or downloads the base models, and tells; blocks. Raises `UnknownBaseModel`, `OSError`, `ValueError`.
    """
    from warren_gpu_worker.base_models import resolve_base_models

    given = {name: getattr(options, name) for name in options.model_fields_set}
    return GpuWorkerSettings.model_validate(
        {
            **defaults,
            **given,
            "base_models": resolve_base_models(base_models, models_folder, tell=tell),
            "adapters": _named(adapters),
        }
    )


def _named(adapters: Sequence[str]) -> dict[str, str]:
    """Name -> folder or URL."""
    given: dict[str, str] = {}
    for choice in adapters:
        name, _, folder = choice.partition("=")
        if not name or not folder:
            raise ValueError(f"--adapter {choice} is not NAME=FOLDER")
        given[name] = folder
    return given
