"""Secrets of environments: keys of services that they use.

A run names them; their values lie with the env worker, in environment variables that begin with
`WARREN_SECRET_`, so that no value travels, is stored, or can be asked for under another name.
Values are cut out of every reason that is sent, and of all that the environment's process prints or
logs, tracebacks too. What is disguised (encoded, or printed in pieces) can't be recognised.
"""

import io
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Self, TextIO

from pydantic import AfterValidator

from warren.environment import ConfigError

PREFIX = "WARREN_SECRET_"
MIN_CHARS = 6
"""Shorter values are not looked for in texts: they would be found by chance."""


def _of_a_secret(variable: str) -> str:
    if not variable.startswith(PREFIX):
        raise ValueError(
            f"must begin with {PREFIX}; a run gets at no other variable of the env worker"
        )
    return variable


SecretVariable = Annotated[str, AfterValidator(_of_a_secret)]
"""An environment variable that a run's config may have sent somewhere."""


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
    for name, value in _known():
        text = text.replace(value, f"<{name}>")
    return text


def bytes_without_secrets(printed: bytes) -> bytes:
    """The same for what was printed, whatever its encoding."""
    for name, value in _known():
        printed = printed.replace(os.fsencode(value), f"<{name}>".encode())
    return printed


class WithoutSecrets(io.TextIOWrapper):
    """A text stream that cuts the values of secrets out of what is written to it."""

    @classmethod
    def before(cls, stream: TextIO) -> Self:
        """It writes where `stream` writes, line by line."""
        return cls(stream.buffer, stream.encoding, "backslashreplace", line_buffering=True)

    def write(self, text: str, /) -> int:
        super().write(without_secrets(text))
        return len(text)


def _known() -> Iterable[tuple[str, str]]:
    """Names and values of this worker's secrets, longest value first: one may hold another."""
    found = [
        (name.removeprefix(PREFIX), value)
        for name, value in os.environ.items()
        if name.startswith(PREFIX) and len(value) >= MIN_CHARS
    ]
    return sorted(found, key=lambda secret: -len(secret[1]))
