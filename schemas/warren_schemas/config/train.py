"""A whole run: what the YAML file, the command line, the SDK and HTTP carry."""

from collections.abc import Iterable
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, model_validator

from warren_schemas.base import Listed
from warren_schemas.config.algorithm import AlgorithmConfig
from warren_schemas.config.environment import EnvironmentConfig, SecretName
from warren_schemas.config.limits import CheckpointConfig, LimitsConfig
from warren_schemas.config.model import LoraUpdate, ModelConfig
from warren_schemas.config.numbers import NonNegativeInt
from warren_schemas.config.optimizer import OptimizerConfig
from warren_schemas.config.phases import EvaluationConfig, SftConfig
from warren_schemas.config.resume import ResumeFrom
from warren_schemas.config.retention import RetentionConfig
from warren_schemas.config.sampling import Sampling
from warren_schemas.config.source import LiveSource, RecordedSource, Source
from warren_schemas.config.unused import (
    curricula_not_trained,
    evaluations,
    fates_not_replayed,
    not_of_recorded,
    of_live_episodes,
    unplayed,
    whole_rewards,
    without_effect,
    without_steps,
)
from warren_schemas.text.written import Config

MAX_ENVIRONMENTS = 256
ROWS = EnvironmentConfig(name="dataset")
"""Stands for an environment where rows of a data set are learned or evaluated, which no env worker plays."""


class TrainConfig(Config):
    """A reinforcement-learning run."""

    name: Annotated[str, Field(min_length=1, max_length=128)] = "run"
    """Shown in lists; it need not be unique."""
    model: ModelConfig
    environments: Annotated[Listed[EnvironmentConfig], Field(max_length=MAX_ENVIRONMENTS)] = ()
    """One or more; only fine-tuning on a data set alone needs none."""
    source: Source = Field(default_factory=LiveSource)
    """Where trajectories come from; `live` is the default."""
    resume_from: ResumeFrom | None = None
    """Continue from a checkpoint of another run; null starts from the base model."""
    sampling: Sampling = Field(default_factory=Sampling)
    algorithm: AlgorithmConfig = Field(default_factory=AlgorithmConfig)
    optimizer: OptimizerConfig = Field(default_factory=OptimizerConfig)
    sft: SftConfig | None = None
    evaluation: EvaluationConfig | None = None
    checkpoint: CheckpointConfig = Field(default_factory=CheckpointConfig)
    retention: RetentionConfig = Field(default_factory=RetentionConfig)
    limits: LimitsConfig = Field(default_factory=LimitsConfig)
    secrets: Listed[SecretName] = ()
    """Names of secrets that every environment gets; the env workers hold their values."""
    seed: NonNegativeInt = 0
    """Seeds the tasks, the adapters and the data order."""

    @model_validator(mode="after")
    def _trainable_sampling(self) -> Self:
        if self.sampling.temperature == 0:
            raise ValueError(
                "sampling.temperature: 0 makes all episodes of a group alike, so nothing can be"
                " learned; set it above 0 (evaluation.temperature may be 0)"
            )
        if reason := self.sampling.untrainable:
            raise ValueError(f"sampling.{reason}")
        for i, environment in enumerate(self.environments):
            if reason := environment.sampling.applied_to(self.sampling).untrainable:
                raise ValueError(f"environments.{i}.sampling.{reason}")
        return self

    @model_validator(mode="after")
    def _comparable_groups(self) -> Self:
        """With fewer than two members left there is nothing to compare."""
        for i, environment in enumerate(self.environments):
            n_members = environment.group_size or self.algorithm.group_size
            if n_members - (environment.max_failed_members or 0) < 2:
                raise ValueError(
                    f"environments.{i}.max_failed_members: a group of {n_members} with"
                    f" {environment.max_failed_members} failed members leaves fewer than 2"
                )
        return self

    @model_validator(mode="after")
    def _resumes_live(self) -> Self:
        if self.resume_from is not None and not isinstance(self.source, LiveSource):
            raise ValueError(
                "resume_from goes on with live episodes; a replay begins where source says, so give"
                " one of the two"
            )
        return self

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        reasons = [
            *whole_rewards(self.algorithm, self.environments),
            *evaluations(self.evaluation, self.limits.steps),
        ]
        if self.evaluates_recorded:
            reasons += not_of_recorded(self, is_scored=self.is_scored)
        elif self.limits.steps == 0:
            reasons += without_steps(
                self.evaluation,
                is_tuned=self.sft is not None,
                is_live=isinstance(self.source, LiveSource),
                sections=self._of_training(),
            )
            reasons += curricula_not_trained(self.environments)
        elif isinstance(self.source, RecordedSource):
            reasons += fates_not_replayed(self.source.where)
        if self.model.gpus > 1 and not (self.needs_trainer or self.evaluates_recorded):
            reasons.append("model.gpus: a base model is evaluated without a trainer; leave it out")
        if isinstance(self.source, RecordedSource) and not self.evaluates_recorded:
            reasons += self._not_of_replays()
        if reasons:
            raise ValueError("; ".join(reasons))
        return self

    @model_validator(mode="after")
    def _has_environments(self) -> Self:
        is_on_rows = self.sft is not None and self.sft.dataset is not None
        if not self.environments and not (is_on_rows and self.only_tunes):
            raise ValueError(
                "environments: nothing says where episodes happen; name one, or fine-tune alone with"
                " sft.dataset and limits.steps: 0, without an evaluation"
            )
        if is_on_rows and not isinstance(self.source, LiveSource):
            raise ValueError(
                "sft.dataset: a replay fine-tunes on the recorded demonstrations; leave sft or source out"
            )
        return self

    @property
    def only_tunes(self) -> bool:
        """Whether it fine-tunes and does nothing else."""
        return self.sft is not None and self.limits.steps == 0 and self.evaluation is None

    def environment_of(self, number: int) -> EnvironmentConfig:
        """Where an episode of this environment happens; rows of `sft.dataset` have the numbers after the last one."""
        return self.environments[number] if number < len(self.environments) else ROWS

    def played_splits(self, number: int) -> list[str]:
        """Which keys of this environment name the splits whose tasks are begun."""
        has_own = self.environments[number].evaluation_split is not None
        is_live = isinstance(self.source, LiveSource)
        is_evaluated = self.evaluation is not None and not self.evaluates_recorded
        keys = {
            "split": (is_live and not self.is_evaluation) or (is_evaluated and not has_own),
            "evaluation_split": is_evaluated and has_own,
        }
        return [key for key, is_used in keys.items() if is_used]

    @property
    def is_evaluation(self) -> bool:
        """Whether nothing is trained."""
        return self.limits.steps == 0 and self.sft is None

    @property
    def evaluates_recorded(self) -> bool:
        """Whether what was recorded is evaluated, and nothing else is done."""
        is_asked = self.is_evaluation and self.evaluation is not None
        return is_asked and isinstance(self.source, RecordedSource)

    @property
    def is_scored(self) -> bool:
        """Whether env workers give recorded episodes their rewards."""
        return isinstance(self.source, RecordedSource) and self.source.is_scored

    @property
    def begins_bare(self) -> bool:
        """Whether the first policy is the base model, which samplers have without a trainer's help."""
        update = self.model.update
        has_adapter = isinstance(update, LoraUpdate) and update.start_adapter is not None
        return self.resume_from is None and not has_adapter

    @property
    def needs_trainer(self) -> bool:
        """Whether it waits in the queue for one, and does nothing before."""
        return not (self.is_evaluation and self.begins_bare)

    def _of_training(self) -> dict[str, BaseModel]:
        """What says how a policy is trained, as far as nothing else needs it.

        A critic is a part of the model that a checkpoint holds.
        """
        algorithm = self.algorithm.model_copy(update={"critic": None})
        if not self.is_evaluation:
            return {"algorithm": algorithm}
        return {"algorithm": algorithm, "optimizer": self.optimizer, "checkpoint": self.checkpoint}

    def for_evaluation(self, resume_from: ResumeFrom | None = None) -> Self:
        """The config of an evaluation alone, of the base model or of a checkpoint of this model.

        Raises `ConfigurationError`.
        """
        training = {"algorithm", "optimizer", "checkpoint", "sft", "resume_from", "source"}
        written = self.model_dump(mode="json", exclude=training)
        written["limits"] |= {"steps": 0}
        for environment in written["environments"]:
            curriculum: dict[str, Any] | None = environment["curriculum"]
            if curriculum is not None and curriculum["over"] == "tasks":
                environment["curriculum"] = None
        written["evaluation"] = (written["evaluation"] or {}) | {
            "before": True, "after": True, "every_steps": None,
        }  # fmt: skip
        if resume_from is None:
            written["model"]["gpus"] = 1
        critic = self.algorithm.critic
        written["algorithm"] = {"critic": None if critic is None else critic.model_dump()}
        return type(self)(**written, resume_from=resume_from)

    def for_replay(self, source: RecordedSource) -> Self:
        """The config of a replay: without `left_out_of_replay`, or, where nothing is trained, of the evaluation of what is
        recorded. Raises `ConfigurationError`."""
        if self.is_evaluation:
            return self.for_recorded_evaluation(source)
        return self._without(self.left_out_of_replay(is_scored=source.is_scored), source)

    def left_out_of_replay(self, *, is_scored: bool = False) -> list[str]:
        """Keys that `for_replay` leaves out."""
        if self.is_evaluation:
            return without_effect(self, is_scored=is_scored)
        unplayed = self._unplayed(is_scored=is_scored).values()
        return [*self._of_live_episodes(), *(path for paths in unplayed for path in paths)]

    def for_recorded_evaluation(self, source: RecordedSource) -> Self:
        """The config of an evaluation of what is recorded: without what has no effect on one. Raises
        `ConfigurationError`."""
        limits = self.limits.model_copy(update={"steps": 0})
        changes = {
            "limits": limits,
            "evaluation": EvaluationConfig(),
            "sft": None,
            "resume_from": None,
        }
        asked = self.model_copy(update={**changes, "source": source})
        return asked._without(without_effect(asked, is_scored=source.is_scored), source)

    def _without(self, paths: Iterable[str], source: RecordedSource) -> Self:
        """The config of a replay of this source that says nothing of these."""
        written = self.model_dump(mode="json", exclude={"source"})
        for path in paths:
            *above, key = path.split(".", 3)  # names of splits may have dots
            section: Any = written
            for name in above:
                section = section[int(name) if name.isdigit() else name]
            section.pop(key, None)
        return type(self)(**written, source=source)

    def _not_of_replays(self) -> Iterable[str]:
        """Why it is no config of a replay that trains."""
        if keys := self._of_live_episodes():
            yield (
                f"a recorded source has no use for {', '.join(keys)}: what was sampled, how and when,"
                " stands in the recording; leave it out"
            )
        for why, paths in self._unplayed(is_scored=self.is_scored).items():
            yield f"{', '.join(paths)}: {why}"

    def _of_live_episodes(self) -> list[str]:
        """Keys that are not the default and that a replay has no use for."""
        is_evaluated = self.evaluation is not None
        return list(
            of_live_episodes(
                self.sampling, self.algorithm, self.environments, is_evaluated=is_evaluated
            )
        )

    def _unplayed(self, *, is_scored: bool) -> dict[str, list[str]]:
        """Keys that nobody has a use for who plays nothing, or plays recorded episodes once more, by why."""
        is_evaluated = self.evaluation is not None
        return unplayed(self, self.environments, is_evaluated=is_evaluated, is_scored=is_scored)
