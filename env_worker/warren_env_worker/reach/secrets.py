"""Secrets: keys of services that environments use, and texts without them.

Their values lie with the env worker, in environment variables that begin with `WARREN_SECRET_`, and
nowhere else: a child is told those that its episodes may use, one by one. Values are cut out of every
reason that is sent, and of all that an environment's process prints or logs, tracebacks too. What is
disguised (encoded, or printed in pieces) can't be recognised.

Invariant: a text is freed of secrets before it is cut to length, or what is left of a value would not
be recognised.
"""

import io
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Self, TextIO

from pydantic import AfterValidator

PREFIX = "WARREN_SECRET_"
MIN_CHARS = 6
"""Shorter values are not looked for in texts: they would be found by chance."""

_told: dict[str, str] = {}
"""Those that this process was told of, besides those in its environment."""


def _of_a_secret(variable: str) -> str:
    if not variable.startswith(PREFIX):
        raise ValueError(
            f"must begin with {PREFIX}; a run gets at no other variable of the env worker"
        )
    return variable


SecretVariable = Annotated[str, AfterValidator(_of_a_secret)]
"""An environment variable that a run's config may have sent somewhere."""


def value_of(name: str) -> str | None:
    """Of this worker's secret of this name, without the blanks around it; None for one without content."""
    return os.environ.get(PREFIX + name, "").strip() or None


def remember(secrets: Mapping[str, str]) -> None:
    """Look for these values in texts, too."""
    _told.update(secrets)


def without_secrets(text: str) -> str:
    """The text with every value of a secret replaced by its name."""
    for name, value in _known():
        text = text.replace(value, f"<{name}>")
    return text


def shortened(text: str, max_chars: int) -> str:
    """The text without secrets, and not longer than this."""
    return cut(without_secrets(text), max_chars)


def cut(text: str, max_chars: int) -> str:
    """For a text that holds no secret, or is told to who wrote it."""
    return text if len(text) <= max_chars else text[:max_chars] + "…"


class Cleaner:
    """Takes secrets out of bytes that come in pieces, in whatever places they are cut."""

    def __init__(self) -> None:
        self._held = b""

    def clean(self, printed: bytes) -> bytes:
        """What is surely free of secrets by now; the beginning of one waits for what follows."""
        text = self._held + printed
        secrets = _known_bytes()
        for name, value in secrets:
            text = text.replace(value, b"<" + name + b">")
        n_held = max((_n_begun(text, value) for _, value in secrets), default=0)
        self._held = text[len(text) - n_held :]
        return text[: len(text) - n_held]

    def rest(self) -> bytes:
        """What was held back, once nothing more comes."""
        held, self._held = self._held, b""
        return held

    @property
    def n_held(self) -> int:
        return len(self._held)


def _n_begun(text: bytes, value: bytes) -> int:
    """So many bytes at the end of the text are the beginning of this value."""
    for n_bytes in range(min(len(value) - 1, len(text)), 0, -1):
        if text.endswith(value[:n_bytes]):
            return n_bytes
    return 0


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
    """Names and values of the secrets that this process knows, longest value first: one may hold another.

    Of a value of several lines, each long one counts by itself: what is printed goes on line by line.
    """
    own = {n.removeprefix(PREFIX): v.strip() for n, v in os.environ.items() if n.startswith(PREFIX)}
    found = [
        (name, part)
        for name, value in (own | _told).items()
        for part in {value, *value.splitlines()}
        if len(part) >= MIN_CHARS
    ]
    return sorted(found, key=lambda secret: -len(secret[1]))


def _known_bytes() -> list[tuple[bytes, bytes]]:
    return [(name.encode(), os.fsencode(value)) for name, value in _known()]
