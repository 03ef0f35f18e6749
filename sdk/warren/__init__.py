"""Warren for users: submit reinforcement-learning runs and write environments.

    async with warren.connect() as client:
        run = await client.train("guess.yaml")
        async for event in run.events():
            print(event)
        print(await run.result())

The same without `await`, for scripts and notebooks:

    with warren.sync.connect() as client:
        print(client.train("guess.yaml").result())

Importing this package loads next to nothing: each name below is fetched when it is first used.
Never imported from here: torch, a broker client, a web server.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from warren import sync
    from warren.client import (
        Client,
        connect,
    )
    from warren.configs import (
        ConfigLike,
    )
    from warren.environment import (
        Env,
        StepResult,
    )
    from warren.errors import (
        AuthenticationError,
        ConfigurationError,
        GatewayBusy,
        GatewayError,
        GatewayUnreachable,
        NotAwaited,
        NotFound,
        RunCancelled,
        RunEndedBadly,
        RunFailed,
        WarrenError,
    )
    from warren.reading import (
        ConnectionChanged,
        Event,
    )
    from warren.recording import (
        Beginning,
    )
    from warren.run import (
        Run,
    )
    from warren_schemas.check import (
        RunCheck,
        RunEstimate,
    )
    from warren_schemas.config import (
        AdvantageKind,
        AlgorithmConfig,
        AllMembers,
        CheckpointConfig,
        CispoLoss,
        Credit,
        Critic,
        CrossEntropyLoss,
        DroLoss,
        EnvironmentConfig,
        EpisodeCredit,
        EvaluationConfig,
        FullUpdate,
        GroupPolicy,
        GspoLoss,
        ImportanceSamplingLoss,
        KlPenalty,
        LimitsConfig,
        LiveSource,
        LoraUpdate,
        Loss,
        ModelConfig,
        OptimizerConfig,
        PolicyLoss,
        PpoLoss,
        Quorum,
        RecordedSource,
        ResumeFrom,
        RetentionConfig,
        Retry,
        RewardReduction,
        RewardRules,
        Sampling,
        SamplingChanges,
        ScheduleKind,
        SftConfig,
        Source,
        SplitConfig,
        ToolFormat,
        TrainConfig,
        TurnCredit,
        Update,
    )
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
    from warren_schemas.http import (
        CheckpointList,
        CheckpointView,
        DeadLetterDetails,
        DeadLetterView,
        Health,
        MetricsView,
        QueueView,
        RunResult,
        RunView,
        TrajectoryView,
        WorkerView,
    )

    __version__: str

__all__ = [
    "AdvantageKind",
    "AlgorithmConfig",
    "AllMembers",
    "AuthenticationError",
    "Beginning",
    "CheckpointConfig",
    "CheckpointList",
    "CheckpointView",
    "CispoLoss",
    "Client",
    "ConfigLike",
    "ConfigurationError",
    "ConnectionChanged",
    "Credit",
    "Critic",
    "CrossEntropyLoss",
    "DeadLetterDetails",
    "DeadLetterView",
    "DroLoss",
    "Env",
    "EnvironmentConfig",
    "EpisodeCredit",
    "EvaluationCompleted",
    "EvaluationConfig",
    "Event",
    "FileView",
    "FolderView",
    "FullUpdate",
    "GatewayBusy",
    "GatewayError",
    "GatewayUnreachable",
    "GroupPolicy",
    "GspoLoss",
    "Health",
    "ImportanceSamplingLoss",
    "KlPenalty",
    "LimitsConfig",
    "LiveSource",
    "LoraUpdate",
    "Loss",
    "MetricsView",
    "ModelConfig",
    "NotAwaited",
    "NotFound",
    "OptimizerConfig",
    "Phase",
    "PolicyLoss",
    "PpoLoss",
    "QueueView",
    "Quorum",
    "RecordedSource",
    "ResumeFrom",
    "RetentionConfig",
    "Retry",
    "RewardReduction",
    "RewardRules",
    "Run",
    "RunCancelled",
    "RunCheck",
    "RunEndedBadly",
    "RunEstimate",
    "RunEventBody",
    "RunFailed",
    "RunResult",
    "RunState",
    "RunView",
    "Sampling",
    "SamplingChanges",
    "ScheduleKind",
    "SftConfig",
    "Source",
    "SplitConfig",
    "StateChanged",
    "StepCompleted",
    "StepResult",
    "ToolFormat",
    "TrainConfig",
    "TrajectoryView",
    "TurnCredit",
    "Update",
    "WaitingEnded",
    "WaitingStarted",
    "WarningRaised",
    "WarrenError",
    "WorkerView",
    "__version__",
    "connect",
    "sync",
]

_HOMES = {
    "warren.client": ("Client", "connect",),
    "warren.configs": ("ConfigLike",),
    "warren.environment": ("Env", "StepResult",),
    "warren.errors": (
        "AuthenticationError", "ConfigurationError", "GatewayBusy", "GatewayError",
        "GatewayUnreachable", "NotAwaited", "NotFound", "RunCancelled", "RunEndedBadly",
        "RunFailed", "WarrenError",
    ),
    "warren.reading": ("ConnectionChanged", "Event",),
    "warren.recording": ("Beginning",),
    "warren.run": ("Run",),
    "warren.version": ("__version__",),
    "warren_schemas.check": ("RunCheck", "RunEstimate"),
    "warren_schemas.config": (
        "AdvantageKind", "AlgorithmConfig", "AllMembers", "CheckpointConfig", "CispoLoss", "Credit",
        "Critic", "CrossEntropyLoss", "DroLoss", "EnvironmentConfig", "EpisodeCredit",
        "EvaluationConfig", "FullUpdate", "GroupPolicy", "GspoLoss", "ImportanceSamplingLoss",
        "KlPenalty", "LimitsConfig", "LiveSource", "LoraUpdate", "Loss", "ModelConfig",
        "OptimizerConfig", "PolicyLoss", "PpoLoss", "Quorum", "RecordedSource", "ResumeFrom",
        "RetentionConfig", "Retry", "RewardReduction", "RewardRules", "Sampling", "SamplingChanges",
        "ScheduleKind", "Source", "SplitConfig", "ToolFormat", "TrainConfig", "TurnCredit",
        "Update", "SftConfig",
    ),
    "warren_schemas.events": (
        "EvaluationCompleted", "Phase", "RunEventBody", "RunState", "StateChanged", "StepCompleted",
        "WaitingEnded", "WaitingStarted", "WarningRaised",
    ),
    "warren_schemas.files": ("FileView", "FolderView"),
    "warren_schemas.http": (
        "CheckpointList", "CheckpointView", "DeadLetterDetails", "DeadLetterView", "Health", "MetricsView",
        "QueueView", "RunResult", "RunView", "TrajectoryView", "WorkerView",
    ),
}  # fmt: skip
_HOME = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "sync":
        return import_module("warren.sync")
    if name not in _HOME:
        raise AttributeError(f"module 'warren' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
