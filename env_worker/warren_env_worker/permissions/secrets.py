"""Secrets: keys of services that environments use, and texts without them.

Their values lie with the env worker, in environment variables that begin with `WARREN_SECRET_`, and
nowhere else: a child is told those that its episodes may use, one by one. Values are cut out of every
reason that is sent, and of all that an environment's process prints or logs, tracebacks too. What is
disguised (encoded, or printed in pieces) can't be recognised.

Invariants: a text is freed of secrets before it is cut to length, or what is left of a value would not
be recognised. A text that a run is told is freed of the secrets that this run has, and no others: what
is cut out tells whoever wrote it that a guess was right.
"""

import io
import os
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Self, TextIO

from warren_schemas.fields.secret_variables import PREFIX

MIN_CHARS = 6
"""Shorter values are not looked for in texts: they would be found by chance."""

_told: dict[str, str] = {}
"""Those that this process was told of, besides those in its environment."""


def value_of(name: str) -> str | None:
    """Of this worker's secret of this name, without the blanks around it; None for one without content."""
    return os.environ.get(PREFIX + name, "").strip() or None


def remember(secrets: Mapping[str, str]) -> None:
    """Look for these values in texts, too."""
    _told.update(secrets)


_of_the_run: ContextVar[Mapping[str, str] | None] = ContextVar("secrets of the run", default=None)


@contextmanager
def for_run(secrets: Mapping[str, str]) -> Generator[None]:
    """What is told meanwhile goes to a run that has these secrets, and no others."""
    token = _of_the_run.set(secrets)
    try:
        yield
    finally:
        _of_the_run.reset(token)


def without_secrets(text: str) -> str:
    """The text with every value of a secret of this process replaced by its name."""
    return _without(_known(), text)


def without_run_secrets(text: str) -> str:
    """The same for a text that is sent: where that goes to one run, of the secrets of that one."""
    secrets = _of_the_run.get()
    return without_secrets(text) if secrets is None else _without(_longest_first(secrets), text)


def shortened(text: str, max_chars: int) -> str:
    """As it is told, and not longer than this."""
    return cut(without_run_secrets(text), max_chars)


def cut(text: str, max_chars: int) -> str:
    """For a text that holds no secret, or is told to who wrote it."""
    return text if len(text) <= max_chars else text[:max_chars] + "…"


class Cleaner:
    """Takes secrets out of bytes that come in pieces, in whatever places they are cut.

    Of several that stand at one place, the longest goes.
    """

    def __init__(self, secrets: Mapping[str, str] | None = None) -> None:
        """These, or else those that this process knows by then."""
        self._secrets = secrets
        self._held = b""

    def clean(self, printed: bytes) -> bytes:
        """What is surely free of secrets by now.

        The beginning of a secret waits for what follows; so does one that may be the beginning of another.
        """
        text, names = self._held + printed, self._names()
        cleaned, begin = list[bytes](), 0
        n_begun = _n_begun(text, names)
        for found in _any_of(names).finditer(text) if names else ():
            if found.start() >= len(text) - n_begun:
                break
            cleaned += [text[begin : found.start()], b"<" + names[found.group()] + b">"]
            begin = found.end()
            n_begun = _n_begun(text[begin:], names)
        self._held = text[len(text) - n_begun :]
        cleaned.append(text[begin : len(text) - n_begun])
        return b"".join(cleaned)

    def rest(self) -> bytes:
        """What was held back, once nothing more comes; of the beginning of a secret its name alone."""
        held, self._held = self._held, b""
        begun = [name for value, name in self._names().items() if value.startswith(held)]
        return b"<" + begun[0] + b">" if begun and len(held) >= MIN_CHARS else held

    @property
    def n_held(self) -> int:
        return len(self._held)

    def _names(self) -> dict[bytes, bytes]:
        """By value, the longest first."""
        known = _known() if self._secrets is None else _longest_first(self._secrets)
        return {os.fsencode(value): name.encode() for value, name in known.items()}


def _n_begun(text: bytes, values: Iterable[bytes]) -> int:
    """So many bytes at the end of the text are the beginning of a longer value."""
    return max((_n_begun_of(text, value) for value in values), default=0)


def _n_begun_of(text: bytes, value: bytes) -> int:
    for n_bytes in range(min(len(value) - 1, len(text)), 0, -1):
        if text.endswith(value[:n_bytes]):
            return n_bytes
    return 0


def _any_of(values: Iterable[bytes]) -> re.Pattern[bytes]:
    return re.compile(b"|".join(map(re.escape, values)))


class WithoutSecrets(io.TextIOWrapper):
    """A text stream that cuts the values of secrets out of what is written to it."""

    @classmethod
    def before(cls, stream: TextIO) -> Self:
        """It writes where `stream` writes, line by line."""
        return cls(stream.buffer, stream.encoding, "backslashreplace", line_buffering=True)

    def write(self, text: str, /) -> int:
        super().write(without_secrets(text))
        return len(text)


def _without(names: Mapping[str, str], text: str) -> str:
    if not names:
        return text
    any_of = re.compile("|".join(map(re.escape, names)))
    return any_of.sub(lambda found: f"<{names[found.group()]}>", text)


def _known() -> dict[str, str]:
    """The secrets that this process knows: names by value."""
    own = {n.removeprefix(PREFIX): v.strip() for n, v in os.environ.items() if n.startswith(PREFIX)}
    return _longest_first(own | _told)


def _longest_first(secrets: Mapping[str, str]) -> dict[str, str]:
    """Names by value, the longest value first: one may hold another.

    Of a value of several lines, each long one counts by itself: what is printed goes on line by line.
    """
    found = [
        (part, name)
        for name, value in secrets.items()
        for part in {value, *value.splitlines()}
        if len(part) >= MIN_CHARS
    ]
    return dict(sorted(found, key=lambda secret: -len(secret[0])))
