"""Any service that speaks SandboxFusion's `/run_code`: each cell by itself, on another machine.

Invariants: no variables are kept between cells; a service that fails is asked again with growing
pauses, and then it is `SandboxFailed`, never a result; of an answer that is none, nothing is told.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import cast

from warren.host_services.cells import CellResult, CellStatus, SandboxFailed
from warren.host_services.settings import SandboxLimits
from warren_env_worker.permissions.service import FAILED, Service, ServiceFailed
from warren_env_worker.sandbox.port import shortened

N_TRIES = 4
FIRST_PAUSE_S = 0.5
GRACE_S = 30.0
"""How long after a cell's limit the service may take to answer: it may have a queue."""


def run_code_url(url: str) -> str:
    return url.rstrip("/").removesuffix("/run_code") + "/run_code"


class RemoteSandbox:
    tier = "http"
    keeps_state = False

    def __init__(
        self, service: Service, limits: SandboxLimits, *, first_pause_s: float = FIRST_PAUSE_S
    ) -> None:
        self._service = service
        self._limits = limits
        self._first_pause_s = first_pause_s

    @property
    def is_alive(self) -> bool:
        """There is nothing that could end."""
        return True

    async def start(self) -> None:
        """Nothing to start."""

    async def run(self, code: str, limit_s: float) -> CellResult:
        """Run a cell. Raises `SandboxFailed`."""
        body = {
            "code": code.encode(errors="replace").decode(),
            "language": "python",
            "run_timeout": limit_s,
            "compile_timeout": limit_s,
            "memory_limit_MB": self._limits.memory_mib,
        }
        async with self._service.session(limit_s + GRACE_S) as session:
            for number in range(N_TRIES):
                if number:
                    await asyncio.sleep(self._first_pause_s * 2 ** (number - 1))
                with contextlib.suppress(ServiceFailed):
                    if (result := self._result(await session.post(body))) is not None:
                        return result
        raise SandboxFailed(f"{self._service.url}: {FAILED}")

    async def close(self) -> None:
        """Nothing to do."""

    def _result(self, reply: object) -> CellResult | None:
        """None for an answer that is no result."""
        answer = _fields(reply)
        known = {"Success": CellStatus.OK, "Failed": CellStatus.ERROR}
        status = known.get(str(answer.get("status")))
        if status is None:
            return None
        ran = _fields(answer.get("run_result"))
        printed = f"{ran.get('stdout') or ''}{ran.get('stderr') or ''}"
        if ran.get("status") == "TimeLimitExceeded":
            status = CellStatus.TIMEOUT
        return CellResult(status, shortened(printed, self._limits.output_bytes))


def _fields(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value if isinstance(value, dict) else {})
