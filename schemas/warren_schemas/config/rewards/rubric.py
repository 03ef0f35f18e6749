"""The parts of a reward that look at one episode: what it is worth beyond, or in place of, what its environment gives."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from warren_schemas.config.numbers import (
    Name,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)
from warren_schemas.config.sandbox import CellSeconds
from warren_schemas.fields.secret_variables import SecretVariable
from warren_schemas.text.written import Config

MAX_CODE_CHARS = 16_384
"""It travels with each episode."""
MAX_JUDGE_S = 280.0
"""All parts of a reward have 300 s together."""


class Part(Config):
    weight: float = 1.0
    """The reward is the sum of all parts, each times its weight; with 0 a part is a metric alone."""
    name: Name | None = None
    """What its metric is called: `reward/NAME`; null: its kind, or the name of its function."""


class OwnReward(Part):
    """What the environment itself gives, turn by turn."""

    kind: Literal["own"] = "own"


class FunctionReward(Part):
    """A Python function on the env worker."""

    kind: Literal["function"] = "function"
    function: Annotated[str, Field(pattern=r"^[\w.-]+(:[\w.]+)?$", max_length=256)]
    """The name of an entry point of `warren.rewards`, or `module:function` of a module that can be imported
    where the env worker runs, if its operator allows it."""


class ServicePart(Part):
    """What is said of every HTTP endpoint of your own."""

    url: Annotated[str, Field(pattern=r"^https?://")]
    """Where it is; the env worker's operator must allow it."""
    key_variable: SecretVariable | None = None
    """Environment variable of the env worker with a key, sent as `Authorization: Bearer <key>`; it
    begins with `WARREN_SECRET_`."""
    in_flight: PositiveInt = 8
    """Most requests at the same time, of one env worker."""
    tries: PositiveInt = 4
    """How often a request is made before what it asks for fails."""
    timeout_s: PositiveFloat = 60.0
    """Of one try."""


class ServiceReward(ServicePart):
    """An HTTP endpoint of your own, asked for many episodes at once."""

    kind: Literal["service"] = "service"
    batch: PositiveInt = 64
    """Most episodes of one request."""


class CodeReward(Part):
    """A Python function that comes with the config and runs in a sandbox."""

    kind: Literal["code"] = "code"
    code: Annotated[str, Field(min_length=1, max_length=MAX_CODE_CHARS)]
    """Python with a function that is called `reward`. It runs in a sandbox, anew for each episode."""
    limit_s: CellSeconds | None = None
    """How long it may run for an episode; null is 10 s, or what the operator allows."""


class Scale(Config):
    minimum: float = 0.0
    """The worst score, which becomes a reward of 0."""
    maximum: float = 10.0
    """The best one, which becomes 1. What lies outside is no score."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum >= self.maximum:
            raise ValueError(f"minimum {self.minimum:g} is not below maximum {self.maximum:g}")
        return self


class NumberScore(Scale):
    """A number in the judge's words: the last one."""

    kind: Literal["number"] = "number"
    after: Annotated[str, Field(max_length=256)] = ""
    """The first number behind these words, where they stand last; empty takes the last number of all."""


class YesNoScore(Config):
    """Yes is 1 and no 0: whichever of the two words the judge says last."""

    kind: Literal["yes_no"] = "yes_no"


class JsonScore(Scale):
    """A field of the JSON object that the judge writes; other words may stand around it."""

    kind: Literal["json"] = "json"
    field: Annotated[str, Field(min_length=1, max_length=256)] = "score"
    """A number, or true or false for the best and the worst score."""


Judgement = Annotated[NumberScore | YesNoScore | JsonScore, Field(discriminator="kind")]


class JudgePart(Part):
    """What is said of every language model that judges, behind any OpenAI-compatible chat endpoint."""

    url: Annotated[str, Field(pattern=r"^https?://")]
    """As OpenAI's clients have it: `https://host/v1`, without `/chat/completions`; the env worker's operator must allow it."""
    model: Annotated[str, Field(min_length=1, max_length=256)]
    """What the endpoint calls it."""
    key_variable: SecretVariable | None = None
    """Environment variable of the env worker with a key, sent as `Authorization: Bearer <key>`; it
    begins with `WARREN_SECRET_`."""
    system: Annotated[str, Field(max_length=MAX_CODE_CHARS)] | None = None
    """System message before the prompt."""
    temperature: NonNegativeFloat = 0.0
    """Of its sampling."""
    max_tokens: PositiveInt = 1024
    """Longest answer."""
    tries: PositiveInt = 4
    """How often a question is asked that has no answer with a score, before what it is about fails."""
    deadline_s: Annotated[float, Field(gt=0, le=MAX_JUDGE_S)] = 120.0
    """Of one question, with all tries and the pauses between them."""
    in_flight: PositiveInt = 8
    """Most requests at the same time, of one env worker."""
    cache: NonNegativeInt = 1024
    """So many questions are remembered with their scores, by each env worker: the same one isn't asked twice; 0 is
    off."""
    max_requests: PositiveInt | None = None
    """Most requests of the run, by each env worker; once they are spent, what is asked next fails; null is no limit."""
    max_total_tokens: PositiveInt | None = None
    """The same for the tokens of prompts and answers, as the endpoint counts them."""


class JudgeReward(JudgePart):
    """A language model that says how good an episode is, behind any OpenAI-compatible chat endpoint."""

    kind: Literal["judge"] = "judge"
    prompt: Annotated[str, Field(min_length=1, max_length=MAX_CODE_CHARS)]
    """What it is asked. `{response}`, `{messages}`, `{task}` (the first message of the user), `{gold}` and
    `{own_reward}` stand for those of the episode; all other braces are as they are."""
    score: Judgement = NumberScore()
    """How its answer becomes a number from 0 to 1."""

    @model_validator(mode="after")
    def _sees_what_was_said(self) -> Self:
        if "{response}" not in self.prompt and "{messages}" not in self.prompt:
            raise ValueError(
                "prompt has neither {response} nor {messages}, so the judge would not see what was said"
            )
        return self


Reward = Annotated[
    OwnReward | FunctionReward | ServiceReward | CodeReward | JudgeReward,
    Field(discriminator="kind"),
]
"""Of one episode."""
