"""How an environment is served over HTTP."""

from pydantic import Field, JsonValue

from warren_schemas.base import Frozen, Listed
from warren_schemas.config.numbers import Name, NonNegativeInt, PositiveFloat, PositiveInt


class HttpServerSettings(Frozen):
    host: str = "127.0.0.1"
    """Address to listen at."""
    port: NonNegativeInt = 8644
    """Port to listen at; 0 takes a free one."""
    api_key: str | None = None
    """Key that requests must bring as `Authorization: Bearer`; without one, everybody may ask who reaches the address."""
    splits: Listed[Name] = ()
    """A split to name; repeatable. Without it, those that the environment names itself, else train and test."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Arguments of its constructor, where an episode's own `config` does not say otherwise."""
    max_turns: PositiveInt = 256
    """Turns of an episode; a longer one is truncated, and scored then."""
    capacity: PositiveInt = 1024
    """Maximum number of live episodes; beyond it, new ones are answered with 503."""
    n_processes: PositiveInt = 1
    """Processes that host it."""
    idle_s: PositiveFloat = 3600.0
    """How long an episode may be silent before it is forgotten, in seconds."""
