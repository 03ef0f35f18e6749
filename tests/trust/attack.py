"""What an attack of the tables here is: what a hostile tenant writes into a config, and how it is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]
KEY = "WARREN_SECRET_JUDGE"
SECRET = "sk-of-the-victim-0123456789"


@dataclass(frozen=True, slots=True)
class Target:
    """What there is to be attacked."""

    run: str
    """The other tenant's."""
    judge: str
    """The other tenant's service, which gets his key and is not for the attacker."""
    own: str
    """A service that the attacker may ask, without a key."""
    listener: str
    """A service on the attacker's own, on loopback."""
    outside: str
    """A file that exists, outside of the data root."""


@dataclass(frozen=True, slots=True)
class Attack:
    config: Callable[[Target], Config]
    refusal: str
    """Found in what the tenant is told."""
    is_submitted: bool = True
    """False: the gateway refuses the config itself."""


def base(**changes: Any) -> Config:
    """The least config, which fails at its first failed episode."""
    return {
        "name": "attack",
        "model": {"base": "warren/tiny"},
        "environments": [{"name": "echo"}],
        "sampling": {"max_tokens": 2},
        "algorithm": {"group_size": 2, "groups_per_step": 1},
        "limits": {"steps": 1, "episode_attempts": 1, "failed_groups": 1},
        **changes,
    }


def environment(**changes: Any) -> Config:
    return base(environments=[{"name": "echo", **changes}])


NO_FILE = "there is no such file below the env worker's data root"
NO_SERVICE = "no service that this env worker's operator allows this run"
NO_SECRET = "no secret that this env worker's operator lets this run send there"
NO_FUNCTION = "no reward function that this env worker's operator allows"
NO_COMMAND = "is not allowed for this run by this env worker's operator"
