"""Environments: what an agent acts in and is rewarded by.

An environment is a class; one instance is one episode. It makes the first observation in `reset`,
answers each action of the policy in `step`, and says when the episode is over. A whole one:

    import warren.environment as we

    class Echo(we.Env):
        name = "echo"

        def __init__(self, length: int = 3) -> None:
            self.length = length

        def reset(self, task: None, ctx: we.Context) -> str:
            self.word = "".join(ctx.rng.choices("abc", k=self.length))
            return f"Say {self.word}"

        def step(self, action: str) -> we.StepResult:
            return we.StepResult(reward=float(action == self.word), done=True)

Host it with `warren env-worker --env my_module:Echo`, try it with `warren.testing.play(Echo, ...)`.

What an environment may rely on, and what it owes:

- While it lives, each episode has a process of its own, forked from one that has everything imported; methods may
  block, up to `limits`. The process plays another episode after one that ended well and left nothing behind. An
  episode of one quick turn may have none while it waits for the policy: then `reset` is called again before `step`.
  Classes with `async def` methods share a process and run concurrently; `isolation` says otherwise.
- Chance comes from `ctx.rng` (or `ctx.member_rng`), never from the global `random`: the members of a group must start
  from the same state, and an episode whose worker died is rebuilt elsewhere by `reset` and the recorded actions. An
  environment that can't do this says `replayable = False`.
- An exception is a failed episode, not a reward; so are NaN, infinity and a missed deadline.
- What `print` writes goes to the log of the run (`warren logs`), and to a file of the environment's own,
  `~/.warren/logs/environments`.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal

from typing_extensions import TypeVar

from warren.episode_transcript import EpisodeTranscript
from warren.host_services.context import Context
from warren.observation import Observation, PromptTokens
from warren_schemas.chat.tool_formats import Tool
from warren_schemas.datasets.row_ids import row_id
from warren_schemas.images import Image
from warren_schemas.transcript import ChatMessage

__all__ = [
    "ChatMessage",
    "ConfigError",
    "Context",
    "Env",
    "EpisodeTranscript",
    "Image",
    "Isolation",
    "Limits",
    "NoDemonstrations",
    "NotReplayable",
    "Observation",
    "PromptTokens",
    "Sampled",
    "ScoreResult",
    "StepResult",
    "TaskError",
]

TaskT = TypeVar("TaskT", default=None)

Isolation = Literal["process", "episode", "shared"]
"""`process`: a live episode has a process to itself, which plays the next one after a clean end: no
failure, and no leftover that Warren looks for. With `async` methods, as `episode`.
`episode`: each episode in a fresh process, forked from one that has everything imported.
`shared`: all episodes in one process; a crash costs a rebuild of its neighbours."""


class ConfigError(ValueError):
    """The environment can't be made from this config or data; trying again won't help."""


class TaskError(Exception):
    """This task can't be played, because its data is wrong: trying it again won't help, and the others go on."""


class NotReplayable(Exception):
    """What the episode stood on is gone (a session at a server, say), and what was rebuilt is not the same:
    the episode fails, and is tried again from its start."""


class NoDemonstrations(Exception):
    """The environment has no `demonstrate()`."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long calls may take, and how much an observation may hold.

    A call over its time is killed together with its process; the other episodes of that process are rebuilt.
    """

    reset_s: float = 60.0
    """Constructor and `reset`."""
    step_s: float = 30.0
    """`step`, `demonstrate`, `close`."""
    score_s: float = 60.0
    """`score`, `score_group`."""
    load_s: float = 300.0
    """`tasks`, once for each process, config and split."""
    memory_mb: int | None = 2048
    """What an episode's own process may take beyond what it starts with; over it, `MemoryError`.
    Where `isolation` is `shared`, what all episodes of a process may take together: over it, the
    process is replaced, and its episodes are rebuilt. None is no limit."""
    episodes_per_process: int = 1000
    """After so many a process is replaced, where `isolation` is `process`."""
    max_episodes: int | None = None
    """Most live episodes in one env worker; None: as many as the worker holds."""
    observation_chars: int = 200_000
    """Of all messages, with their images in base64."""


Score = float | Mapping[str, float] | None
"""What `score` gives."""
GroupScore = float | Mapping[str, float]
"""What `score_group` gives for each episode."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What the environment answers to an action."""

    observation: Observation = ""
    reward: float | None = None
    """None gives no reward at this turn, which is not a reward of 0. The rewards are summed."""
    done: bool = False
    truncated: bool = False
    """Ends the episode because of a limit and not because of what happened in it."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """Finite numbers for charts, for example `{"exact": 1.0}`; the last value of a name counts."""
    after: int | None = None
    """The action of the episode, counted from 1, that the observation follows; 0 begins a conversation
    anew. None is the last action. What was said meanwhile the policy doesn't see there; each conversation
    is trained on as a sequence of its own, with the episode's reward."""
    earlier: Mapping[int, float] = field(default_factory=dict[int, float])
    """Rewards of earlier actions, by their number in the episode, counted from 1: each takes the place of what
    that action got."""


@dataclass(frozen=True, slots=True)
class ScoreResult:
    """What `score` gives that has found out more than the reward."""

    reward: float
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    """As those of `StepResult`; they are no parts of the reward."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The tokens of an action, as they were sampled."""

    is_cut: bool = False
    """It was cut at `max_tokens`."""
    prompt_ids: Sequence[int] = ()
    """All that the policy had before it."""
    ids: Sequence[int] = ()
    logprobs: Sequence[float] = ()
    versions: Sequence[int] = ()
    """Of the policy, one for each token."""


class Env(ABC, Generic[TaskT]):
    """One episode of an environment. Subclass it; see the module for a whole example.

    The constructor takes the environment's config as keyword arguments: their names, types and
    defaults are what users may set. It should be cheap; data belongs into `tasks`.
    """

    name: ClassVar[str] = ""
    """What configs call it; the class's name in lower case unless set."""
    version: ClassVar[str] = "1"
    splits: ClassVar[tuple[str, ...]] = ()
    """The splits there are unless a config brings other data; empty where any name will do. Written
    out as a tuple of names, it lets `warren train --dry-run` find a misspelt one."""
    limits: ClassVar[Limits] = Limits()
    replayable: ClassVar[bool] = True
    """True if the same seed and actions give the same observations."""
    single_turn: ClassVar[bool] = False
    """True if the first action ends every episode: `warren ors-server` then offers plain words as the answer."""
    isolation: ClassVar[Isolation | None] = None
    """None: `shared` for a class with `async` methods, else `process`."""
    sees_tokens: ClassVar[bool] = False
    """Whether `sampled` is set before each `step`."""
    has_levels: ClassVar[bool] = False
    """True if `reset` makes a task of the level `ctx.level`; a curriculum of levels is refused for other classes."""
    context: Context
    """What `reset` gets as well; set before it."""
    sampled: Sampled = Sampled()
    """The tokens of the action that `step` gets, if `sees_tokens`."""
    task_id: str | None = None
    """What this episode's task is called; `reset` may set it where `id_of` can't tell."""
    wants_task_ids: bool = False
    """Set before `tasks`: whether `id_of` will be asked of all tasks, as where a run's config names some. Environments that
    have to fetch the ids may do it only then; `reset` sets `task_id` anyway."""
    category: str | None = None
    """What kind of task this episode's is; evaluations have a table by it. `reset` may set it: one or a few
    words, the same for all episodes of a task."""

    gold_answer: str | None = None
    """The right answer, for the parts of a run's `rewards` alone. `reset` may set it."""
    data_source: str = ""
    """Which data the task is from, for these as well."""

    @classmethod
    def offered(cls) -> Sequence[Tool] | None:
        """Tools that the policy may call, as `warren ors-server` lists them; None where it speaks plain words
        alone. `warren.tools.ToolEnv` has them."""
        return None

    def tasks(self, split: str) -> Sequence[TaskT] | Awaitable[Sequence[TaskT] | None] | None:
        """The tasks of a split, or None for an environment that makes its own from `ctx`.

        May be `async` where `isolation` is `shared`. Called once for each process, config and split, on an instance of its own; the result is
        shared by all episodes and must not be changed by them. Each epoch passes through the tasks in a fresh order.
        """
        return None

    def task_of(self, row: Mapping[str, Any]) -> TaskT:
        """The task that a row of a data set describes, where a run's config names one (`dataset`).

        Called on the episode's own instance, and `tasks` is not. `TaskError` says what is wrong with a row.
        """
        raise ConfigError(f"{type(self).__name__} takes no data set: it has no task_of()")

    def id_of(self, task: TaskT) -> str | None:
        """A name that stays with the task when the data changes, and that no other task of its split has: results
        are compared by it. A mapping's is its `task_id`, `id` or `uid`; None: it is told by its number, `train/7`."""
        return row_id(task)

    def system_prompt(self) -> str | None:
        """Goes before the first observation as a system message. Called after `reset`."""
        return None

    def system_message(self) -> str | None:
        """The whole system message; for base classes that add to the prompt."""
        return self.system_prompt()

    @abstractmethod
    def reset(self, task: TaskT, ctx: Context) -> Observation | Awaitable[Observation]:
        """The first observation of the episode; must not be empty."""

    @abstractmethod
    def step(self, action: str) -> StepResult | Awaitable[StepResult]:
        """What follows from the policy's words, which may be anything, an empty text or one that was cut short too. Never
        called again after `done`."""

    def score(
        self, transcript: EpisodeTranscript
    ) -> Score | ScoreResult | Awaitable[Score | ScoreResult]:
        """A reward for the episode as a whole, added to that of the last turn; None gives none.

        Called once, after the end or the cut at `max_turns`, with all that was shown and said. A mapping holds named parts: their
        sum is the reward, and each part is a metric. `ScoreResult` has metrics that are no parts of it.
        """
        return None

    def score_group(
        self, transcripts: Sequence[EpisodeTranscript], task: TaskT
    ) -> Sequence[GroupScore] | Awaitable[Sequence[GroupScore]]:
        """What the episodes of a group are worth beside each other: a reward for each, in their order, added to that of its
        last turn. As with `score`, a mapping holds named parts.

        A class that has it is asked once all have ended; those that failed are not among them, and in an evaluation with
        one sample there is one. The instance is a fresh one, which plays no episode: it has the config and `context`, and
        `reset` was not called. It may be asked again, elsewhere, if a process dies.
        """
        raise NotImplementedError(f"{type(self).__name__} has no score_group()")

    def demonstrate(self, rng: random.Random) -> str | Awaitable[str]:
        """A legal action in the present state, for supervised fine-tuning; must not change the state."""
        raise NoDemonstrations(f"{type(self).__name__} has no demonstrate()")

    def close(self) -> Awaitable[None] | None:
        """Let go of what the episode holds. Called once, unless the process died."""
        return None
