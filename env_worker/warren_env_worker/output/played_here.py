"""What is logged by environments that are played in this process: it goes where the output of a child would.

Invariants: it is freed of the values of secrets; it stands in no other log of this process; whoever logs in a task that an episode
has begun, in a library too, logs for its environment.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import TextIO

from warren_env_worker.output.kept import KeptOutput
from warren_env_worker.output.log import OutputLog
from warren_env_worker.output.pump import Pump, pumped
from warren_env_worker.permissions.secrets import without_secrets

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_played: ContextVar[object] = ContextVar("what is played", default=None)


@asynccontextmanager
async def logged(name: str, log: OutputLog | None) -> AsyncGenerator[Context]:
    """A context whose log records go to the environment's log, or where our output goes."""
    if log is None:
        with _logged_to(sys.stderr) as context:
            yield context
        return
    kept = KeptOutput(log)
    pump: Pump | None = None
    try:
        with (
            pumped(name, kept.keep) as (sink, pump),
            _stream(sink) as stream,
            _logged_to(stream) as context,
        ):
            yield context
    finally:
        if pump is not None:
            await asyncio.to_thread(pump.drain)
        kept.end()


def _stream(descriptor: int) -> TextIO:
    """Of lines; the descriptor stays the caller's to close."""
    return open(descriptor, "w", buffering=1, closefd=False)


@contextmanager
def _logged_to(stream: TextIO) -> Generator[Context]:
    handler = _OfContext(stream)
    root = logging.getLogger()
    others = [other for other in root.handlers if not isinstance(other, _OfContext)]
    for other in others:
        other.addFilter(_is_not_played)
    root.addHandler(handler)
    context = copy_context()
    context.run(_played.set, handler)
    try:
        yield context
    finally:
        root.removeHandler(handler)
        for other in others:
            other.removeFilter(_is_not_played)


class _OfContext(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(logging.Formatter(FORMAT))

    def filter(self, record: logging.LogRecord) -> bool:
        return _played.get() is self

    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


def _is_not_played(_record: logging.LogRecord) -> bool:
    return _played.get() is None
