"""Reading a run's recorded trajectories: each once, in order, across lost connections.

Invariant: reading goes on behind the last trajectory that was handed out; an answer that was cut off
is taken up there, and only one that the gateway ended itself is the end.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias
from urllib.parse import quote, urlencode

from pydantic import ValidationError

from warren.connection.transport import Transport
from warren.errors import ConfigurationError, GatewayBusy, GatewayError, GatewayUnreachable
from warren_schemas.config import LARGEST_INT, RecordedSource, RecordingFilter
from warren_schemas.http import TrajectoryView
from warren_schemas.ids import RunId
from warren_schemas.text.explain import explain

Beginning: TypeAlias = int | datetime | timedelta | None
"""An offset, a time, so long ago, or (None) the oldest trajectory that is kept."""


class TrajectoryReader:
    def __init__(
        self,
        transport: Transport,
        run: RunId,
        *,
        from_: Beginning,
        limit: int | None,
        follow: bool,
        all_attempts: bool,
        reconnect_s: float,
    ) -> None:
        self._transport = transport
        self._path = f"/v1/runs/{quote(run, safe='')}/trajectories"
        self._offset, self._since_s = _split(from_)
        self._left = limit
        self._flags = {"follow": follow, "all_attempts": all_attempts}
        self._reconnect_s = reconnect_s
        self._waits = self._transport.backoff.delays()
        self._alive_s = time.monotonic()

    async def read(self) -> AsyncGenerator[TrajectoryView]:
        """Raises the error of the connection after `reconnect_s` without one."""
        while self._left is None or self._left > 0:
            try:
                async with contextlib.aclosing(self._connection()) as views:
                    async for view in views:
                        yield view
                return
            except (GatewayUnreachable, GatewayBusy):
                if time.monotonic() - self._alive_s >= self._reconnect_s:
                    raise
            await asyncio.sleep(next(self._waits))

    async def _connection(self) -> AsyncGenerator[TrajectoryView]:
        async with self._transport.lines(f"{self._path}?{self._query()}") as lines:
            async for line in lines:
                self._alive_s = time.monotonic()
                if line.strip():
                    yield self._accept(line)

    def _accept(self, line: bytes) -> TrajectoryView:
        try:
            view = TrajectoryView.model_validate_json(line)
        except ValidationError as error:
            raise GatewayError(
                "The gateway sent a trajectory that this version of warren can't read",
                hint="Install the gateway's version of warren-rl; `warren doctor` compares the two.",
            ) from error
        self._offset, self._since_s = view.offset + 1, None
        self._waits = self._transport.backoff.delays()
        if self._left is not None:
            self._left -= 1
        return view

    def _query(self) -> str:
        wanted = {"offset": self._offset, "since_s": self._since_s, "limit": self._left}
        query = {name: value for name, value in wanted.items() if value is not None}
        return urlencode(query | {name: str(value).lower() for name, value in self._flags.items()})


def recorded_source(
    run: RunId | None,
    from_: Beginning,
    *,
    also: Sequence[RunId] = (),
    where: RecordingFilter | Mapping[str, object] | None = None,
    epochs: int = 1,
    shuffle_window: int | None = None,
    from_archive: bool = False,
    dataset: str | None = None,
    score: bool = False,
) -> RecordedSource:
    """What a replay's config says about its source. Raises `ConfigurationError`."""
    offset, since_s = _split(from_)
    source: dict[str, object] = {
        "run": run,
        "from_offset": offset,
        "from_s": since_s,
        "also_runs": tuple(also),
        "where": where or {},
        "epochs": epochs,
        "shuffle_window": shuffle_window,
        "from_archive": from_archive,
        "dataset": dataset,
        "rewards": "scored" if score else "recorded",
    }
    try:
        return RecordedSource.model_validate(source)
    except ValidationError as error:
        lines = explain(error, RecordedSource)
        raise ConfigurationError("This can't be replayed", details=lines) from error


def parse_beginning(text: str) -> Beginning:
    """From `1200` (an offset), `2026-03-01T12:00` (local time), or `90s`, `15m`, `2h`, `3d` (ago).

    Raises `ConfigurationError`.
    """
    units = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
    with contextlib.suppress(ValueError, OverflowError):
        if text.isdigit():
            return int(text)
        if text[:-1].isdigit() and text[-1] in units:
            return timedelta(**{units[text[-1]]: int(text[:-1])})
        return datetime.fromisoformat(text)
    raise ConfigurationError(
        f"{text!r} is no place in a recording",
        hint="Give an offset (1200), a time (2026-03-01T12:00) or how long ago (90s, 15m, 2h, 3d).",
    )


def _split(from_: Beginning) -> tuple[int | None, float | None]:
    """As an offset or a Unix time. Raises `ConfigurationError`."""
    match from_:
        case datetime():
            since_s = _unix_s(from_)
        case timedelta():
            since_s = time.time() - from_.total_seconds()
        case _:
            if from_ is not None and not 0 <= from_ <= LARGEST_INT:
                raise ConfigurationError(f"an offset is at least 0 and at most {LARGEST_INT}")
            return from_, None
    return None, max(0.0, since_s)


def _unix_s(moment: datetime) -> float:
    try:
        return moment.timestamp()
    except (ValueError, OverflowError) as error:  # local time of the first or the last day
        raise ConfigurationError(f"{moment} is out of range") from error
