"""Reading what a run reported: each row once, in order, across lost connections.

Invariant: reading goes on behind the last row that was handed out; an answer that was cut off is
taken up there, and only one that the gateway ended itself is the end.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from fnmatch import fnmatchcase
from urllib.parse import quote, urlencode

from pydantic import ValidationError

from warren.connection.transport import Transport
from warren.errors import GatewayBusy, GatewayError, GatewayUnreachable
from warren_schemas.http import MetricsView
from warren_schemas.ids import RunId


class MetricsReader:
    def __init__(
        self,
        transport: Transport,
        run: RunId,
        *,
        tags: Sequence[str] | None,
        after: int,
        follow: bool,
        reconnect_s: float,
    ) -> None:
        self._transport = transport
        self._path = f"/v1/runs/{quote(run, safe='')}/metrics"
        self._tags = tags
        self._after = after
        self._follow = follow
        self._reconnect_s = reconnect_s
        self._waits = self._transport.backoff.delays()
        self._alive_s = time.monotonic()

    async def read(self) -> AsyncGenerator[MetricsView]:
        """Raises the error of the connection after `reconnect_s` without one."""
        while True:
            try:
                async with contextlib.aclosing(self._connection()) as rows:
                    async for row in rows:
                        if (chosen := with_tags(row, self._tags)) is not None:
                            yield chosen
                return
            except (GatewayUnreachable, GatewayBusy):
                if time.monotonic() - self._alive_s >= self._reconnect_s:
                    raise
            await asyncio.sleep(next(self._waits))

    async def _connection(self) -> AsyncGenerator[MetricsView]:
        query = urlencode({"after": self._after, "follow": str(self._follow).lower()})
        async with self._transport.lines(f"{self._path}?{query}") as lines:
            async for line in lines:
                self._alive_s = time.monotonic()
                if line.strip():
                    yield self._accept(line)

    def _accept(self, line: bytes) -> MetricsView:
        try:
            row = MetricsView.model_validate_json(line)
        except ValidationError as error:
            raise GatewayError(
                "The gateway sent metrics that this version of warren can't read",
                hint="Install the gateway's version of warren-rl; `warren doctor` compares the two.",
            ) from error
        self._after = row.number
        self._waits = self._transport.backoff.delays()
        return row


def with_tags(row: MetricsView, tags: Sequence[str] | None) -> MetricsView | None:
    """The row with the metrics that fit one of these patterns (`reward/*`); None where none does."""
    if tags is None:
        return row
    chosen = {
        tag: value
        for tag, value in row.metrics.items()
        if any(fnmatchcase(tag, pattern) for pattern in tags)
    }
    return row.model_copy(update={"metrics": chosen}) if chosen else None
