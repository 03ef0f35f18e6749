"""The host's end of a session in a process: starts it, asks it, and replaces it when it is lost.

Invariants: a session answers within the cell's limit and `GRACE_S`, or is killed with all that runs
in it; replies never get out of step with cells, because a session that was left while it worked is
not used again; what a reply says besides the status is text, and nothing is done by it; one that is
longer or other than a supervisor's is `SandboxFailed`, whoever took its place.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import orjson
from pydantic import ValidationError

from warren.host_services.cells import CellResult, CellStatus, SandboxFailed
from warren.host_services.settings import MIB
from warren.isolation.archives import descriptor_of
from warren.isolation.errors import CannotIsolate
from warren_broker.worker.child import Child, ChildDied, FrameTooLong
from warren_env_worker.sandbox.inside.session import MAX_CODE_BYTES
from warren_env_worker.sandbox.plan import Plan
from warren_schemas.base import Frozen

GRACE_S = 25.0
"""How long after a cell's limit its session may take to sweep up and answer."""
CLOSE_S = 2.0
MAX_COMPLAINT_BYTES = 500
MAX_REPLY_BYTES = 8 * MIB
"""More than the most that may be kept of what a cell prints, 1 MiB, with an escape of six characters for each byte."""
_LOST = CellResult(CellStatus.LOST, "")


class _Reply(Frozen):
    """Of a supervisor, to a cell."""

    status: CellStatus
    output: str
    n_omitted: int


class ProcessSandbox:
    keeps_state = True

    def __init__(self, tier: str, plan: Callable[[], Plan]) -> None:
        self.tier = tier
        self._plan = plan
        self._child: Child | None = None
        self._n_cells = 0

    @property
    def is_alive(self) -> bool:
        """Whether its session has started and not ended."""
        return self._child is not None and self._child.is_alive

    async def start(self) -> None:
        """Start the session now and not with its first cell. Raises `SandboxFailed`."""
        if self._child is None:
            self._child = await _started(self._planned())

    def _planned(self) -> Plan:
        try:
            return self._plan()
        except CannotIsolate as error:
            raise SandboxFailed(str(error)) from error

    async def run(self, code: str, limit_s: float) -> CellResult:
        """Run a cell. Raises `SandboxFailed`."""
        code = code.encode(errors="replace").decode()
        if len(code.encode()) > MAX_CODE_BYTES:
            return CellResult(CellStatus.ERROR, f"The code is longer than {MAX_CODE_BYTES} bytes.")
        await self.start()
        assert self._child is not None
        self._n_cells += 1
        request = {"number": self._n_cells, "code": code, "limit_s": limit_s}
        result = _LOST
        try:
            async with asyncio.timeout(limit_s + GRACE_S):
                await self._child.send(orjson.dumps(request))
                result = _result(await self._child.receive(most_bytes=MAX_REPLY_BYTES))
        except TimeoutError:
            pass
        except FrameTooLong as error:
            raise SandboxFailed(str(error)) from error
        except ChildDied:
            await self._ended()
        finally:
            if result.status is CellStatus.LOST:
                await self.close()
        return result

    async def _ended(self) -> None:
        """Its process has ended, maybe while a cell ran. Raises `SandboxFailed` where that was no cell's doing."""

    async def close(self) -> None:
        """End the session; a later cell starts a fresh one."""
        child, self._child = self._child, None
        if child is not None:
            await child.close(grace_s=CLOSE_S)


def _result(reply: bytes) -> CellResult:
    """Raises `SandboxFailed`."""
    try:
        told = _Reply.model_validate_json(reply)
    except ValidationError as error:
        raise SandboxFailed("what it answers is no reply of a supervisor") from error
    return CellResult(told.status, told.output)


async def _started(plan: Plan) -> Child:
    complaints = descriptor_of(b"")
    try:
        child = await Child.launch(
            f"the {plan.tier} sandbox",
            plan.program,
            variables=plan.variables,
            descriptors=plan.descriptors,
            log_path=Path(f"/proc/self/fd/{complaints}"),
        )
        try:
            async with asyncio.timeout(plan.start_s):
                if plan.greeting is not None:
                    await child.send(plan.greeting)
                await child.receive(most_bytes=MAX_REPLY_BYTES)
        except BaseException as error:
            child.kill()
            await child.close(grace_s=0)
            if isinstance(error, TimeoutError | ChildDied | FrameTooLong):
                raise SandboxFailed(
                    f"{error or 'it does not start'}: {_read(complaints)}"
                ) from error
            raise
    except OSError as error:
        raise SandboxFailed(f"it can't be started: {error}") from error
    finally:
        for descriptor in (complaints, *plan.descriptors):
            with contextlib.suppress(OSError):
                os.close(descriptor)
    return child


def _read(descriptor: int) -> str:
    """The last lines that were written there."""
    text = Path(f"/proc/self/fd/{descriptor}").read_bytes()[-MAX_COMPLAINT_BYTES:]
    return " ".join(text.decode(errors="replace").split()) or "without a word"
