"""Warren for users: submit reinforcement-learning runs and write environments.

    async with warren.connect() as client:
        run = await client.train("guess.yaml")
        async for event in run.events():
            print(event)
        print(await run.result())

Importing this package loads next to nothing: each name below is fetched when it is first used.
Never imported from here: torch, a broker client, a web server.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren.client import Client, connect
    from warren.environment import Env, StepResult
    from warren.errors import (
        AuthenticationError,
        ConfigurationError,
        GatewayBusy,
        GatewayError,
        GatewayUnreachable,
        NotFound,
        RunCancelled,
        RunFailed,
        WarrenError,
    )
    from warren.reading import Event
    from warren.run import Run
    from warren_schemas.config import (
        AlgorithmConfig,
        EnvironmentConfig,
        EvaluationConfig,
        FullUpdate,
        LimitsConfig,
        LoraUpdate,
        ModelConfig,
        OptimizerConfig,
        PpoLoss,
        Sampling,
        TrainConfig,
        WarmupConfig,
    )
    from warren_schemas.http import MetricsView, RunResult, RunView, TrajectoryView

    __version__: str

__all__ = [
    "AlgorithmConfig",
    "AuthenticationError",
    "Client",
    "ConfigurationError",
    "Env",
    "EnvironmentConfig",
    "EvaluationConfig",
    "Event",
    "FullUpdate",
    "GatewayBusy",
    "GatewayError",
    "GatewayUnreachable",
    "LimitsConfig",
    "LoraUpdate",
    "MetricsView",
    "ModelConfig",
    "NotFound",
    "OptimizerConfig",
    "PpoLoss",
    "Run",
    "RunCancelled",
    "RunFailed",
    "RunResult",
    "RunView",
    "Sampling",
    "StepResult",
    "TrainConfig",
    "TrajectoryView",
    "WarmupConfig",
    "WarrenError",
    "__version__",
    "connect",
]

_HOMES = {
    "warren.client": ("Client", "connect"),
    "warren.environment": ("Env", "StepResult"),
    "warren.errors": (
        "AuthenticationError", "ConfigurationError", "GatewayBusy", "GatewayError",
        "GatewayUnreachable", "NotFound", "RunCancelled", "RunFailed", "WarrenError",
    ),
    "warren.reading": ("Event",),
    "warren.run": ("Run",),
    "warren.version": ("__version__",),
    "warren_schemas.config": (
        "AlgorithmConfig", "EnvironmentConfig", "EvaluationConfig", "FullUpdate", "LimitsConfig",
        "LoraUpdate", "ModelConfig", "OptimizerConfig", "PpoLoss", "Sampling", "TrainConfig",
        "WarmupConfig",
    ),
    "warren_schemas.http": ("MetricsView", "RunResult", "RunView", "TrajectoryView"),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'warren' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
