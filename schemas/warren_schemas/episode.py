"""Interaction messages: the life of one episode, from `StartEpisode` to `EpisodeEnded`.

StartEpisode -> interact.<environment>   (gateway to any env worker)
Generate     -> generate.<base model>    (env worker to any sampler)
Step         -> home of the episode      (sampler back to the env worker)
EpisodeEnded -> trajectories.<run>       (env worker, or whoever had to give the episode up)
ScoreGroup   -> compare.<environment>    (gateway to any env worker; GroupScored goes to results.<model>)

Each item carries the episode's spec and its transcript whole: a worker that takes it needs nothing
else. `turn` is the number of actions already taken; a consumer that has seen the turn answers with
what it answered before, and refuses one that it can't have reached.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen, QueuePart
from warren_schemas.config import (
    GroupReward,
    Name,
    Reward,
    RewardRules,
    Sampling,
    SecretName,
    ToolFormat,
)
from warren_schemas.envelope import Item
from warren_schemas.fields.spec_texts import NumberedInMessages
from warren_schemas.ids import GroupId, MessageId, ModelId, TaskId
from warren_schemas.token_options import PromptLogprobs, TokenOptions
from warren_schemas.transcript import Transcript

MAX_VERSION = 2**31 - 1
"""Versions travel with tokens as 32-bit integers."""


class PolicyRef(Frozen):
    """The policy that acts: at least this version of this model.

    A sampler uses the newest version it knows, and never an older one than `min_version`. `url`
    points at the weights of `min_version`, so that a sampler that just came up can start with them.
    With `pinned`, exactly `min_version` is used (evaluation, replay).
    """

    model: ModelId
    base_model: QueuePart
    min_version: int = Field(ge=0, le=MAX_VERSION)
    url: str | None = None
    """Where the weights of `min_version` lie; None for the base model itself (version 0)."""
    pinned: bool = False


class TaskRow(Frozen):
    """A row of a data set; it travels along, so that whoever plays the episode needs no file."""

    number: int = Field(ge=0)
    """Where it stands in its split, counted from 0."""
    values: dict[str, JsonValue]


class TaskRef(Frozen):
    """Which task of an environment: the `index`-th drawn from `split`.

    The index grows without end: an environment with N tasks passes through them in a fresh order
    each epoch, an environment without tasks takes its seed from it.
    """

    split: Name = "train"
    index: int = Field(ge=0)
    order_seed: int = Field(default=0, ge=0)
    """Seed of the order in which tasks are drawn; the same throughout a run."""
    shuffle: bool = True
    """False: the tasks come in the order of the data, each epoch alike."""
    num_samples: int | None = Field(default=None, ge=1)
    """Only so many tasks of the split are used; None: all."""
    task_ids: tuple[TaskId, ...] = ()
    """Only the tasks of the split with these ids are used, in this order; empty: all."""
    level: int | None = Field(default=None, ge=0)
    """How hard it is to be, where the run has a curriculum of levels."""
    row: TaskRow | None = None
    """What the task is, where it is a row of a data set; None: the environment knows it by its index."""


def default_task_id(split: str, index: int, number: int | None) -> str:
    """Of a task that nobody named: its number in the data, or else the index from which the environment made it."""
    return f"{split}/{index if number is None else number}"


class EpisodePurpose(StrEnum):
    TRAIN = "train"
    EVALUATE = "evaluate"
    DEMONSTRATE = "demonstrate"
    """The environment's own `demonstrate()` acts and the policy's tokens are forced to match."""


class EpisodeSpec(Frozen):
    """All that defines an episode; constant from its start to its end."""

    group: GroupId
    member: int = Field(ge=0)
    purpose: EpisodePurpose = EpisodePurpose.TRAIN
    environment: QueuePart
    environment_number: int = Field(default=0, ge=0)
    """Which of the run's environments it is, counted from 0: one name may be listed several times."""
    run_owner: str = ""
    """Whose run it is: env workers let its config reach what this owner may. Empty: nobody's."""
    owner: str | None = None
    """Whose own env workers play it; None: those of the deployment."""
    environment_config: dict[str, JsonValue] = Field(default_factory=dict)
    task: TaskRef
    seed: int = Field(ge=0)
    """Same for all members of a group: they start from the same state."""
    policy: PolicyRef
    sampling: Sampling
    max_turns: int = Field(ge=1)
    rewards: tuple[Reward, ...] = ()
    """Parts of the reward; none: what the environment gives is the reward."""
    group_parts: tuple[GroupReward, ...] = ()
    """Parts that compare the members of the group, once all have ended; what they give is added to the others."""
    reward_rules: RewardRules = Field(default_factory=RewardRules)
    tool_format: ToolFormat | None = None
    """None: as the environment says."""
    secrets: tuple[SecretName, ...] = ()
    """Names only: values lie with the env workers and never travel."""
    n_recoveries_left: int = Field(default=3, ge=0)


SharedSpec = Annotated[EpisodeSpec, NumberedInMessages()]


class FinishReason(StrEnum):
    STOP = "stop"
    """The policy ended its turn with an end-of-turn token or a stop string."""
    LENGTH = "length"
    """The turn was cut at `max_tokens`."""


class FailureKind(StrEnum):
    """Why an episode has no outcome. None of these is ever turned into a reward."""

    UNKNOWN_ENVIRONMENT = "unknown_environment"
    ENVIRONMENT_CONFIG = "environment_config"
    ENVIRONMENT_ERROR = "environment_error"
    ENVIRONMENT_TIMEOUT = "environment_timeout"
    ENVIRONMENT_CRASHED = "environment_crashed"
    INVALID_REWARD = "invalid_reward"
    NO_REWARD = "no_reward"
    """The episode ended, or was cut, without a single reward."""
    REWARD_FAILED = "reward_failed"
    """A part of the rubric could not be had."""
    NOT_REPLAYABLE = "not_replayable"
    CONTEXT_LENGTH = "context_length"
    INVALID_REQUEST = "invalid_request"
    """No sampler could take this turn: its chat, tokens or settings are wrong."""
    IMAGES_UNSUPPORTED = "images_unsupported"
    """The environment showed an image to a policy that reads text alone."""
    SAMPLER_ERROR = "sampler_error"
    POLICY_UNAVAILABLE = "policy_unavailable"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"
    LOST = "lost"


class StopReason(StrEnum):
    """Why an episode ended that has an outcome."""

    DONE = "done"
    """Its environment ended it."""
    TRUNCATED = "truncated"
    """Its environment cut it."""
    MAX_TURNS = "max_turns"
    MAX_TOTAL_TOKENS = "max_total_tokens"
    """That, or the model's context, is full."""


class Completed(Frozen):
    status: Literal["completed"] = "completed"
    reward: float
    stop: StopReason = StopReason.DONE
    metrics: dict[str, float] = Field(default_factory=dict)

    @property
    def truncated(self) -> bool:
        """Whether a limit ended the episode, not the environment."""
        return self.stop is not StopReason.DONE


class Failed(Frozen):
    status: Literal["failed"] = "failed"
    kind: FailureKind
    reason: str
    """One sentence for a person: what went wrong and where."""
    retryable: bool = True


Outcome = Annotated[Completed | Failed, Field(discriminator="status")]


class StartEpisode(Item):
    kind: ClassVar[str] = "start_episode"
    schema_version: ClassVar[int] = 1
    spec: SharedSpec


class Generate(Item):
    """The policy's turn: extend the transcript by one assistant message."""

    kind: ClassVar[str] = "generate"
    schema_version: ClassVar[int] = 1
    spec: SharedSpec
    transcript: Transcript
    turn: int = Field(ge=0)
    home: QueuePart
    """Worker that holds the live environment; the answer goes to its home queue."""
    forced_action: str | None = None
    """Set for demonstrations: these exact words become the turn and nothing is sampled."""
    learned: tuple[Annotated[int, Field(ge=0)], ...] | None = None
    """The transcript is a whole conversation, of which these messages are learned: it becomes tokens, nothing is sampled,
    and the episode is over. None: the policy has the next turn."""
    is_plain: bool = False
    """No chat: the policy goes on from the transcript's tokens as they are, which have all of its messages, or, where
    there are none, from the text of its one message; no template is applied."""
    token_options: TokenOptions | None = None
    """What its asker wants beside `sampling`."""


class Step(Item):
    """The environment's turn: the transcript ends with an assistant message to act on."""

    kind: ClassVar[str] = "step"
    schema_version: ClassVar[int] = 1
    spec: SharedSpec
    transcript: Transcript
    turn: int = Field(ge=1)
    """Number of actions in the transcript, this one included."""
    finish: FinishReason
    return_to: str | None = None
    """Sampler that has the transcript cached and would take the next turn; None: any sampler."""
    prompt_logprobs: PromptLogprobs | None = None
    """Of what the turn went on from, where `token_options` asked for them."""
    recorded_stop: StopReason | None = None
    """The episode was played before, and ended here for this reason: it is played through once more for the rewards of
    all its turns, and goes no further."""


class EpisodeEnded(Item):
    """The end of one attempt at an episode: a trajectory, or a typed failure."""

    kind: ClassVar[str] = "episode_ended"
    schema_version: ClassVar[int] = 1
    spec: SharedSpec
    transcript: Transcript
    outcome: Outcome
    worker: str
    """Who published this."""
    environment_version: str = ""
    """What the environment that ended the episode called itself."""
    environment_code: str = ""
    """Digest of the source of that environment's package."""
    started_s: float
    ended_s: float
    compared_by: MessageId | None = None
    """The answer that gave what its reward holds of comparisons; an ending without one is superseded by one with it."""
    uncompared: StopReason | None = None
    """Why the episode ended, where its environment compares it with its group once all have ended (`Env.score_group`): the
    reward that it lacks until then is no failure. None where nobody does, or it was done."""

    @property
    def task_id(self) -> str:
        """As the environment calls the task, or else its split and its number."""
        task, number = self.spec.task, self.transcript.task_number
        return self.transcript.task_id or default_task_id(task.split, task.index, number)

    @property
    def is_compared(self) -> bool:
        return self.compared_by is not None
