"""A logger whose lines go to the run that they are about, too.

Invariant: who writes such a line has decided that the run's owner, and whoever the run is shared with, may read
it. So it names no run of another owner, no address of a machine and no secret; why a run waits may name other runs of its owner,
as the run's events do. A traceback stays in the log of the process.
"""

import logging

from warren_broker.run_logs.sending import logs_of_this_component
from warren_schemas.events import LogLevel
from warren_schemas.ids import RunId


class RunLogger:
    def __init__(self, name: str) -> None:
        """`name` is that of the logger of this process."""
        self._log = logging.getLogger(name)

    def info(self, run: RunId | None, message: str) -> None:
        """To the log of this process, and of the run; without a run to the former alone."""
        self._log.info("%s%s", _mark(run), message)
        _tell(run, LogLevel.INFO, message)

    def warning(self, run: RunId | None, message: str) -> None:
        """`info`, of what a person should look at."""
        self._log.warning("%s%s", _mark(run), message)
        _tell(run, LogLevel.WARNING, message)

    def error(self, run: RunId | None, message: str) -> None:
        """`info`, of what has gone wrong for good."""
        self._log.error("%s%s", _mark(run), message)
        _tell(run, LogLevel.ERROR, message)


def tell_run(run: RunId, level: LogLevel, message: str) -> None:
    """To the log of the run alone."""
    _tell(run, level, message)


def _mark(run: RunId | None) -> str:
    return f"{run}: " if run else ""


def _tell(run: RunId | None, level: LogLevel, message: str) -> None:
    if run is not None and (logs := logs_of_this_component()) is not None:
        logs.add(run, level, message)
