"""Configs: what a user writes to start a run.

One model serves the YAML file, the command line, the SDK and HTTP. Every key has an effect; an
unknown one is an error that names the nearest valid key (see `explain`).

`__all__` is what users write; the SDK exports it as it is. The numbers are for our own models. What
`losses` exports is exported here, so that a new loss needs no line in this file.
"""

from warren_schemas.config import losses
from warren_schemas.config.algorithm import (
    AdvantageKind,
    AlgorithmConfig,
    Credit,
    EpisodeCredit,
    TurnCredit,
)
from warren_schemas.config.critic import Critic
from warren_schemas.config.curriculum import Curriculum
from warren_schemas.config.environment import (
    EnvironmentConfig,
    SecretName,
    SplitConfig,
)
from warren_schemas.config.groups import (
    AllMembers,
    FailedMembers,
    Quorum,
    Retry,
)
from warren_schemas.config.limits import (
    AlarmName,
    CheckpointConfig,
    LimitsConfig,
)
from warren_schemas.config.losses import *
from warren_schemas.config.model import (
    FullUpdate,
    LoraUpdate,
    ModelConfig,
    Update,
)
from warren_schemas.config.numbers import LARGEST_INT as LARGEST_INT
from warren_schemas.config.numbers import Name as Name
from warren_schemas.config.numbers import NonNegativeFloat as NonNegativeFloat
from warren_schemas.config.numbers import NonNegativeInt as NonNegativeInt
from warren_schemas.config.numbers import PositiveFloat as PositiveFloat
from warren_schemas.config.numbers import PositiveInt as PositiveInt
from warren_schemas.config.numbers import UnixTime as UnixTime
from warren_schemas.config.optimizer import (
    OptimizerConfig,
    ScheduleKind,
)
from warren_schemas.config.phases import (
    EvaluationConfig,
    SftConfig,
)
from warren_schemas.config.resume import ResumeFrom
from warren_schemas.config.retention import (
    ArchiveFormat,
    RetentionConfig,
)
from warren_schemas.config.rewards.groups import (
    GroupFunctionReward,
    GroupJudgement,
    GroupJudgeReward,
    GroupReward,
    GroupServiceReward,
    ListScore,
    RankingScore,
)
from warren_schemas.config.rewards.parts import AnyReward
from warren_schemas.config.rewards.parts import name_of as name_of
from warren_schemas.config.rewards.rubric import (
    CodeReward,
    FunctionReward,
    JsonScore,
    Judgement,
    JudgePart,
    JudgeReward,
    NumberScore,
    OwnReward,
    Reward,
    ServicePart,
    ServiceReward,
    YesNoScore,
)
from warren_schemas.config.rewards.rules import (
    RewardReduction,
    RewardRules,
)
from warren_schemas.config.sampling import (
    Sampling,
    SamplingChanges,
)
from warren_schemas.config.source import (
    ClientSource,
    LiveSource,
    RecordedFate,
    RecordedSource,
    RecordingFilter,
    Source,
)
from warren_schemas.config.source import RecordedFacts as RecordedFacts
from warren_schemas.config.tools import (
    ToolFormat,
)
from warren_schemas.config.train import (
    TrainConfig,
)

__all__: list[str] = [
    "AdvantageKind",
    "AlarmName",
    "AlgorithmConfig",
    "AllMembers",
    "AnyReward",
    "ArchiveFormat",
    "CheckpointConfig",
    "ClientSource",
    "CodeReward",
    "Credit",
    "Critic",
    "Curriculum",
    "EnvironmentConfig",
    "EpisodeCredit",
    "EvaluationConfig",
    "FailedMembers",
    "FullUpdate",
    "FunctionReward",
    "GroupFunctionReward",
    "GroupJudgeReward",
    "GroupJudgement",
    "GroupReward",
    "GroupServiceReward",
    "JsonScore",
    "JudgePart",
    "JudgeReward",
    "Judgement",
    "LimitsConfig",
    "ListScore",
    "LiveSource",
    "LoraUpdate",
    "ModelConfig",
    "NumberScore",
    "OptimizerConfig",
    "OwnReward",
    "Quorum",
    "RankingScore",
    "RecordedFate",
    "RecordedSource",
    "RecordingFilter",
    "ResumeFrom",
    "RetentionConfig",
    "Retry",
    "Reward",
    "RewardReduction",
    "RewardRules",
    "Sampling",
    "SamplingChanges",
    "ScheduleKind",
    "SecretName",
    "ServicePart",
    "ServiceReward",
    "SftConfig",
    "Source",
    "SplitConfig",
    "ToolFormat",
    "TrainConfig",
    "TurnCredit",
    "Update",
    "YesNoScore",
]
__all__ += losses.__all__
