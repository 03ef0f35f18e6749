"""What happens before, between and after the steps of reinforcement learning."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.base import Listed
from warren_schemas.config.numbers import (
    DatasetReference,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    SplitName,
)
from warren_schemas.text.written import Config

Role = Literal["system", "user", "assistant", "tool"]
_OF_EVALUATION = ("evaluate_every", "evaluation_rows")
_OF_ROWS = ("split", "epochs", "roles", "max_tokens", "evaluation_split", *_OF_EVALUATION)


class SftConfig(Config):
    """Supervised fine-tuning before reinforcement learning: on a data set, or else on the environment's demonstrations."""

    steps: PositiveInt = 100
    """SFT steps, counted separately from those of reinforcement learning."""
    episodes_per_step: PositiveInt = 32
    """Demonstrations, or rows of the data set, in one step."""
    learning_rate: PositiveFloat = 1e-3
    """Peak learning rate: warmup over 20 steps, then linear decay to a tenth."""
    dataset: DatasetReference | None = None
    """Data set of messages, or of prompts and completions: NAME, OWNER/NAME or either with @DIGEST; null: the
    environment's demonstrations."""
    split: SplitName = "train"
    """Split of the data set."""
    epochs: PositiveFloat | None = None
    """Passes over the split, each in an order of its own by `seed`, instead of `steps`; the last step is filled up from the next pass.
    The gateway makes `steps` of it."""
    roles: Annotated[Listed[Role], Field(min_length=1, max_length=4)] = ("assistant",)
    """Whose messages are learned; of prompts and completions the completions are, whatever the role."""
    max_tokens: PositiveInt | None = None
    """Longer rows are cut at the end; null: at the context of the model. `sft/seq/truncated_frac` tells how many were."""
    evaluation_split: SplitName | None = None
    """Split of the same data set whose loss is measured and not learned, as `sft/evaluation_loss`; null: none is."""
    evaluate_every: PositiveInt | None = None
    """Measure it after so many steps each, and after the last one; null: after the last one alone."""
    evaluation_rows: PositiveInt = 1024
    """Most rows of that split; of a larger one `seed` chooses so many, the same ones each time."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.dataset is None and (key := self._first_given(*_OF_ROWS)):
            raise ValueError(
                f"{key} is of a data set, and demonstrations have none; name a dataset, or leave it out"
            )
        if self.evaluation_split is None and (key := self._first_given(*_OF_EVALUATION)):
            raise ValueError(
                f"{key} says how a split is evaluated, and none is; give evaluation_split, or leave it out"
            )
        if self.epochs is not None and self._first_given("steps"):
            raise ValueError("epochs says how many steps there are; leave steps out")
        if self.epochs is None and self.unreached_interval:
            raise ValueError(self.unreached_interval)
        return self

    @property
    def unreached_interval(self) -> str | None:
        """What is wrong with `evaluate_every`, once it is known how many steps there are."""
        every = self.evaluate_every
        if every is None or every <= self.steps:
            return None
        steps = f"there are {self.steps} steps" if self.steps > 1 else "there is one step"
        return f"evaluate_every is {every}, and {steps}; leave it out: the last one is evaluated anyway"

    def _first_given(self, *keys: str) -> str | None:
        """The first of these that says something else than its default."""
        fields = type(self).model_fields
        return next((key for key in keys if getattr(self, key) != fields[key].default), None)

    def next_evaluation(self, after: int) -> int | None:
        """The first step behind this one whose policy is evaluated; None where none is."""
        if self.evaluation_split is None or after >= self.steps:
            return None
        every = self.evaluate_every or self.steps
        return min((after // every + 1) * every, self.steps)

    def with_rows(self, n_rows: int, dataset: str) -> Self:
        """The same of exactly this version, whose split has so many rows: `epochs` has become `steps`."""
        steps = self.steps
        if self.epochs is not None:
            steps = max(1, math.ceil(self.epochs * n_rows / self.episodes_per_step))
        return self.model_copy(update={"dataset": dataset, "steps": steps, "epochs": None})


class EvaluationConfig(Config):
    """Fresh episodes with one fixed policy version; every evaluation uses the same tasks."""

    episodes: PositiveInt = 256
    """Episodes per evaluation."""
    samples: PositiveInt = 1
    """Episodes of each task; they count among `episodes`. With several, pass@k can be told."""
    temperature: NonNegativeFloat = 0.0
    """Sampling temperature; 0 is greedy."""
    before: bool = True
    """Evaluate before reinforcement learning (and after SFT). Without any, there is one evaluation, `after`."""
    after: bool = True
    """Evaluate at the end; this is also what `every_steps` makes due at the last step."""
    every_steps: PositiveInt | None = None
    """Evaluate every this many steps, while training continues; null is off. Evaluations that fall due
    during another one wait, and use the policy of their own step."""

    @model_validator(mode="after")
    def _whole_tasks(self) -> Self:
        if self.episodes % self.samples:
            raise ValueError(
                f"episodes must be a multiple of samples, and {self.episodes} is none of {self.samples}"
            )
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(
                "samples: at temperature 0 all samples of a task are alike; set temperature above 0, or"
                " leave samples out"
            )
        return self

    @model_validator(mode="after")
    def _is_ever(self) -> Self:
        if not self.before and not self.after and self.every_steps is None:
            raise ValueError(
                "nothing would ever be evaluated: before and after are false, and every_steps is null;"
                " switch one of them on, or leave evaluation out"
            )
        return self
