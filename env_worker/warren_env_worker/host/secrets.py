"""Secrets of environments: keys of services that they use.

A run names them; their values lie with the env worker, in environment variables that begin with
`WARREN_SECRET_`, so that no value travels, is stored, or can be asked for under another name.
Values are cut out of every reason that is sent.
"""

import os
from collections.abc import Iterable, Mapping

from warren.environment import ConfigError

PREFIX = "WARREN_SECRET_"
MIN_CHARS = 6
"""Shorter values are not looked for in texts: they would be found by chance."""


def secrets_named(names: Iterable[str]) -> Mapping[str, str]:
    """The values of these secrets. Raises `ConfigError` for one that this worker does not have."""
    values = {name: os.environ.get(PREFIX + name) for name in names}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        wanted = ", ".join(PREFIX + name for name in missing)
        raise ConfigError(
            f"the env worker lacks a secret: start it with {wanted} in its environment"
        )
    return {name: value for name, value in values.items() if value is not None}


def without_secrets(text: str) -> str:
    """The text with every value of a secret replaced by its name."""
    for name, value in os.environ.items():
        if name.startswith(PREFIX) and len(value) >= MIN_CHARS:
            text = text.replace(value, f"<{name.removeprefix(PREFIX)}>")
    return text
