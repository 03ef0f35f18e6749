"""The future of an op: await it, as often as you like, for what came of the op."""

import asyncio
from collections.abc import Generator
from functools import partial
from urllib.parse import quote

from warren.connection.transport import Transport
from warren.errors import OpFailed
from warren.trainable.retrying import with_retries
from warren_schemas.http import FutureDone, FutureFailed, FuturePending
from warren_schemas.http.trainable import FutureAnswer

POLL_S = 20.0
"""How long one question waits at the gateway; less than its deadline."""


class Future:
    """`await future` gives a `FutureDone`, or raises `OpFailed`. Nothing is asked before that."""

    def __init__(self, transport: Transport, id_: str, kind: str) -> None:
        self._transport = transport
        self.id = id_
        self.kind = kind
        self._asking: asyncio.Task[FutureDone | FutureFailed] | None = None

    def __repr__(self) -> str:
        return f"<Future {self.id} of {self.kind}>"

    def __await__(self) -> Generator[object, None, FutureDone]:
        return self.result().__await__()

    async def result(self) -> FutureDone:
        """What came of the op. Raises `OpFailed`, `NotFound` where its outcome is not kept any more,
        `GatewayUnreachable` after ten minutes without a gateway."""
        if self._asking is None or self._asking.cancelled() or _has_broken(self._asking):
            self._asking = asyncio.create_task(self._ask(), name=f"outcome of {self.kind}")
        outcome = await asyncio.shield(self._asking)
        if isinstance(outcome, FutureFailed):
            error = OpFailed(f"{outcome.kind} failed: {outcome.reason}")
            error.category = outcome.category
            raise error
        return outcome

    async def peek(self) -> FutureDone | FutureFailed | FuturePending:
        """What came of it so far, and what it waits for."""
        return await self._outcome(0.0)

    async def _ask(self) -> FutureDone | FutureFailed:
        while True:
            outcome = await with_retries(partial(self._outcome, POLL_S))
            if not isinstance(outcome, FuturePending):
                return outcome

    async def _outcome(self, wait_s: float) -> FutureDone | FutureFailed | FuturePending:
        path = f"/v1/futures/{quote(self.id, safe='')}?wait_s={wait_s:g}"
        return (await self._transport.get(path, FutureAnswer)).outcome


def _has_broken(asking: "asyncio.Task[FutureDone | FutureFailed]") -> bool:
    return asking.done() and not asking.cancelled() and asking.exception() is not None
