"""Warren for users: submit reinforcement-learning runs and write environments.

    async with warren.connect() as client:
        run = await client.train("guess.yaml")
        async for event in run.events():
            print(event)
        print(await run.result())

The same without `await`, for scripts and notebooks:

    with warren.sync.connect() as client:
        print(client.train("guess.yaml").result())

Importing this package loads next to nothing: each name below is fetched when it is first used. Configs
and the answers of the API are exported as `warren_schemas` lists them, so that a new one needs no line
in this file.
Never imported from here: torch, a broker client, a web server.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren import sync
    from warren.agents.command import (
        CommandAgent,
    )
    from warren.agents.environment import (
        Agent,
        AgentEnv,
    )
    from warren.agents.other_models import (
        OtherModel,
    )
    from warren.client import (
        Client,
        connect,
    )
    from warren.comparing import (
        Comparison,
        PairedTest,
    )
    from warren.configs import (
        ConfigLike,
    )
    from warren.datasets.handle import (
        Dataset,
    )
    from warren.environment import (
        Env,
        StepResult,
    )
    from warren.episode_transcript import (
        EpisodeTranscript,
    )
    from warren.episodes.episode import (
        Episode,
    )
    from warren.episodes.taking import (
        Episodes,
    )
    from warren.errors import (
        AuthenticationError,
        ConfigurationError,
        GatewayBusy,
        GatewayError,
        GatewayUnreachable,
        NotAwaited,
        NotFound,
        OpFailed,
        RunCancelled,
        RunEndedBadly,
        RunFailed,
        WarrenError,
    )
    from warren.evaluations.handle import (
        Evaluation,
    )
    from warren.run import (
        Run,
    )
    from warren.run_configs.sweeps.comparing import (
        ComparedRun,
        RunComparison,
    )
    from warren.run_configs.sweeps.handle import (
        Sweep,
    )
    from warren.streams.events import (
        ConnectionChanged,
        Event,
    )
    from warren.streams.logs import (
        LogEntry,
    )
    from warren.streams.recording import (
        Beginning,
    )
    from warren.trainable.future import (
        Future,
    )
    from warren.trainable.model import (
        TrainableModel,
    )
    from warren_schemas import config as _config
    from warren_schemas import http as _http
    from warren_schemas.check import (
        RunCheck,
        RunEstimate,
        RunExpectation,
    )
    from warren_schemas.config import *
    from warren_schemas.events import (
        EvaluationCompleted,
        Phase,
        RunEventBody,
        RunState,
        StateChanged,
        StepCompleted,
        WaitingEnded,
        WaitingStarted,
        WarningRaised,
    )
    from warren_schemas.files import (
        FileView,
        FolderView,
    )
    from warren_schemas.http import *
    from warren_schemas.isolation.agent_box import (
        Box,
    )
    from warren_schemas.openai.generate import (
        SamplingParams,
    )
    from warren_schemas.users import access as _access
    from warren_schemas.users import limits as _limits
    from warren_schemas.users import usage as _usage
    from warren_schemas.users.access import *
    from warren_schemas.users.limits import *
    from warren_schemas.users.usage import *

    __version__: str

    __all__: list[str] = [
        "Agent",
        "AgentEnv",
        "AuthenticationError",
        "Beginning",
        "Box",
        "Client",
        "CommandAgent",
        "ComparedRun",
        "Comparison",
        "ConfigLike",
        "ConfigurationError",
        "ConnectionChanged",
        "Dataset",
        "Env",
        "Episode",
        "EpisodeTranscript",
        "Episodes",
        "Evaluation",
        "EvaluationCompleted",
        "Event",
        "FileView",
        "FolderView",
        "Future",
        "GatewayBusy",
        "GatewayError",
        "GatewayUnreachable",
        "LogEntry",
        "NotAwaited",
        "NotFound",
        "OpFailed",
        "OtherModel",
        "PairedTest",
        "Phase",
        "Run",
        "RunCancelled",
        "RunCheck",
        "RunComparison",
        "RunEndedBadly",
        "RunEstimate",
        "RunEventBody",
        "RunExpectation",
        "RunFailed",
        "RunState",
        "SamplingParams",
        "StateChanged",
        "StepCompleted",
        "StepResult",
        "Sweep",
        "TrainableModel",
        "WaitingEnded",
        "WaitingStarted",
        "WarningRaised",
        "WarrenError",
        "__version__",
        "connect",
        "sync",
    ]
    __all__ += _config.__all__
    __all__ += _http.__all__
    __all__ += _access.__all__
    __all__ += _limits.__all__
    __all__ += _usage.__all__

_HOMES = {
    "warren.agents.command": ("CommandAgent",),
    "warren.agents.environment": ("Agent", "AgentEnv",),
    "warren.agents.other_models": ("OtherModel",),
    "warren.client": ("Client", "connect",),
    "warren.configs": ("ConfigLike",),
    "warren.datasets.handle": ("Dataset",),
    "warren.environment": ("Env", "StepResult",),
    "warren.episode_transcript": ("EpisodeTranscript",),
    "warren.episodes.episode": ("Episode",),
    "warren.episodes.taking": ("Episodes",),
    "warren.errors": (
        "AuthenticationError", "ConfigurationError", "GatewayBusy", "GatewayError",
        "GatewayUnreachable", "NotAwaited", "NotFound", "OpFailed", "RunCancelled", "RunEndedBadly",
        "RunFailed", "WarrenError",
    ),
    "warren.comparing": ("Comparison", "PairedTest"),
    "warren.evaluations.handle": ("Evaluation",),
    "warren.run_configs.sweeps.comparing": ("ComparedRun", "RunComparison"),
    "warren.run_configs.sweeps.handle": ("Sweep",),
    "warren.streams.events": ("ConnectionChanged", "Event",),
    "warren.streams.logs": ("LogEntry",),
    "warren.streams.recording": ("Beginning",),
    "warren.run": ("Run",),
    "warren.trainable.future": ("Future",),
    "warren.trainable.model": ("TrainableModel",),
    "warren.version": ("__version__",),
    "warren_schemas.isolation.agent_box": ("Box",),
    "warren_schemas.check": ("RunCheck", "RunEstimate", "RunExpectation"),
    "warren_schemas.events": (
        "EvaluationCompleted", "Phase", "RunEventBody", "RunState", "StateChanged", "StepCompleted",
        "WaitingEnded", "WaitingStarted", "WarningRaised",
    ),
    "warren_schemas.files": ("FileView", "FolderView"),
    "warren_schemas.openai.generate": ("SamplingParams",),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_WHOLE = (
    "warren_schemas.users.access", "warren_schemas.config", "warren_schemas.http", "warren_schemas.users.limits",
    "warren_schemas.users.usage",
)  # fmt: skip
"""Modules whose `__all__` is exported here as it is; they are asked for what `_HOMES` lacks."""


def __getattr__(name: str) -> object:
    value = _named(name)
    globals()[name] = value
    return value


def _named(name: str) -> object:
    if name == "sync":
        return import_module("warren.sync")
    if name == "__all__":
        return _names()
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if not name.startswith("_"):
        for module in map(import_module, _WHOLE):
            if name in module.__all__:
                return getattr(module, name)
    raise AttributeError(f"module 'warren' has no attribute {name!r}")


def _names() -> list[str]:
    whole: list[str] = [name for module in _WHOLE for name in import_module(module).__all__]
    return sorted(["sync", *_HOME, *whole])


def __dir__() -> list[str]:
    return sorted({*globals(), *_names()})
