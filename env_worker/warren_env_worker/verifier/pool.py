"""Workers that compare, each one comparison at a time, and a deadline for everything.

Invariants: every comparison ends within its limits with a verdict or `VerificationFailed`; a worker
that is late or dead is replaced before the next comparison, and its memory goes with it; what an answer
brings down is a verdict about it, unless the right answer brings it down as well (`golds`).
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import orjson

from warren.host_services.verdict import Verdict, VerificationFailed
from warren_broker.worker.child import Child, ChildDied
from warren_env_worker.verifier.golds import Golds
from warren_env_worker.verifier.verdict import ComparisonEnded

WORKER_MODULE = "warren_env_worker.verifier.worker"
LIMIT_S = 65.0
"""How long a worker may be silent; it holds itself to less (`worker`)."""
START_S = 120.0
"""How long a worker may take to import its algebra."""
WAIT_S = 60.0
"""How long a comparison waits for a worker that is free."""


class VerifierPool:
    """For one event loop. Workers start when they are needed and stay."""

    def __init__(self, n_workers: int) -> None:
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        self._workers = [_Worker() for _ in range(n_workers)]
        for worker in self._workers:
            self._idle.put_nowait(worker)
        self._golds = Golds(self._compare)

    async def compare(self, gold: str, answer: str) -> Verdict:
        """Raises `VerificationFailed`."""
        self._golds.refuse_known(gold)
        try:
            return await self._compare(gold, answer)
        except ComparisonEnded as end:
            await self._golds.check(gold)
            return end.verdict

    async def _compare(self, gold: str, answer: str) -> Verdict:
        """Raises `ComparisonEnded`, `VerificationFailed`."""
        try:
            request = orjson.dumps([gold, answer])
        except orjson.JSONEncodeError as error:
            raise VerificationFailed(f"the answers are no text: {error}") from error
        async with self._worker() as worker:
            reply = orjson.loads(await worker.ask(request))
        verdict = Verdict(reply["verdict"]) if "verdict" in reply else None
        if verdict is None:
            raise VerificationFailed(reply["reason"])
        if "reason" in reply:
            raise ComparisonEnded(verdict, reply["reason"])
        return verdict

    async def close(self) -> None:
        for worker in self._workers:
            await worker.end()

    @asynccontextmanager
    async def _worker(self) -> AsyncGenerator["_Worker"]:
        try:
            async with asyncio.timeout(WAIT_S):  # `wait_for` may swallow a cancellation
                worker = await self._idle.get()
        except TimeoutError:
            raise VerificationFailed(f"no verifier was free for {WAIT_S:g} s") from None
        try:
            yield worker
        finally:
            self._idle.put_nowait(worker)


class _Worker:
    def __init__(self) -> None:
        self._child: Child | None = None

    async def ask(self, request: bytes) -> bytes:
        try:
            async with asyncio.timeout(START_S):
                child = await self._alive()
            async with asyncio.timeout(LIMIT_S):
                await child.send(request)
                return await child.receive()
        except BaseException as error:
            await self.end()  # an answer that comes late would be taken for the next one
            raise _failed(error) from error

    async def end(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            await child.close()

    async def _alive(self) -> Child:
        """One that died while it was idle is found out here, and not by the comparison's failure."""
        if self._child is not None and not self._child.is_alive:
            await self.end()
        return self._child or await self._start()

    async def _start(self) -> Child:
        child = self._child = await Child.spawn("verifier", WORKER_MODULE)
        await child.receive()
        return child


def _failed(error: BaseException) -> BaseException:
    if isinstance(error, TimeoutError):
        return VerificationFailed("the verifier did not answer in time")
    if isinstance(error, ChildDied | OSError):
        return VerificationFailed(f"the verifier died: {error}")
    return error
