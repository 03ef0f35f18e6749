"""A site's folder: made, owned by one site at a time, and its log."""

import fcntl
import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from warren.errors import ConfigurationError


def make(home: Path) -> None:
    """Create the folder and its `logs`. Raises `ConfigurationError`."""
    try:
        (home / "logs").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"Can't make the folder {home}: {error.strerror}",
            hint="Choose a writable one with --home or WARREN_HOME.",
        ) from error


@contextmanager
def claimed(home: Path) -> Generator[None]:
    """Two sites in one folder would write over each other; the lock ends with its process."""
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"Another `warren up` runs in {home}",
                hint="Use that one, stop it, or give another folder with --home.",
            ) from None
        yield


def log_into(file: Path) -> None:
    """The terminal belongs to people; the log of all parts lies in the site's folder."""
    logging.basicConfig(
        filename=file,
        level=logging.INFO,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )
