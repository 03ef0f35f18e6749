"""The parts of a reward, as they stand in an environment's config."""

from typing import Annotated, Literal

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.config.numbers import Name, PositiveFloat, PositiveInt
from warren_schemas.config.sandbox import CellSeconds
from warren_schemas.fields.secret_variables import SecretVariable

MAX_CODE_CHARS = 16_384
"""It travels with each episode."""


class _Part(Frozen):
    weight: float = 1.0
    """The sum of all parts, each times its weight, is the reward."""
    name: Name | None = None
    """What its metric is called: `reward/<name>`."""


class OwnReward(_Part):
    """What the environment itself gives."""

    kind: Literal["own"] = "own"


class FunctionReward(_Part):
    kind: Literal["function"] = "function"
    function: Annotated[str, Field(pattern=r"^[\w.-]+(:[\w.]+)?$", max_length=256)]
    """The name of an entry point of `warren.rewards`, or `module:function` of a module that can be imported
    where the env worker runs, if its operator allows it."""


class ServiceReward(_Part):
    kind: Literal["service"] = "service"
    url: Annotated[str, Field(pattern=r"^https?://")]
    key_variable: SecretVariable | None = None
    """Environment variable of the env worker with a key, sent as `Authorization: Bearer <key>`; it
    begins with `WARREN_SECRET_`."""
    batch: PositiveInt = 64
    """Most episodes of one request."""
    in_flight: PositiveInt = 8
    """Most requests at the same time."""
    tries: PositiveInt = 4
    timeout_s: PositiveFloat = 60.0
    """Of one try."""


class CodeReward(_Part):
    kind: Literal["code"] = "code"
    code: Annotated[str, Field(min_length=1, max_length=MAX_CODE_CHARS)]
    """Python with a function that is called `reward`. It runs in a sandbox, anew for each episode."""
    limit_s: CellSeconds | None = None
    """How long it may run for an episode; null is 10 s, or what the operator allows."""


Reward = Annotated[
    OwnReward | FunctionReward | ServiceReward | CodeReward, Field(discriminator="kind")
]
