"""A service that speaks SandboxFusion's `/run_code`, on the sandboxes of this machine.

Each request gets a session of its own, which ends with it. Invariants: who lacks the key runs
nothing; what asks for more than the limits gets the limits; a sandbox that fails is `SandboxError`
and never the failure of the code; no more requests wait than `MAX_WAITING`.
"""

import hmac
import os
import time
from dataclasses import dataclass
from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field, ValidationError

from warren.host_services.cells import CellResult, CellStatus, SandboxFailed
from warren.host_services.settings import SandboxLimits
from warren_env_worker.sandbox.opening import Sandboxes
from warren_schemas.base import Frozen
from warren_schemas.text.explain import explain

MAX_WAITING = 256
RETRY_AFTER_S = 2
MAX_BODY_BYTES = 1 << 20


class RunCode(Frozen):
    """The body of a request."""

    code: str
    language: Literal["python"]
    stdin: str | None = None
    run_timeout: Annotated[float, Field(gt=0)] = 10.0
    compile_timeout: float | None = None
    """Nothing is compiled."""
    memory_limit_MB: int | None = None
    """The service's own limit counts."""
    files: dict[str, str | None] = Field(default_factory=dict, max_length=0)
    fetch_files: tuple[str, ...] = Field(default=(), max_length=0)


@dataclass
class _Service:
    sandboxes: Sandboxes
    limits: SandboxLimits
    key: str | None
    n_waiting: int = 0

    async def run_code(self, request: web.Request) -> web.Response:
        if not self._is_allowed(request):
            return _refusal(401, "a key is needed: Authorization: Bearer …")
        if self.n_waiting >= MAX_WAITING:
            return _refusal(503, f"{MAX_WAITING} requests are waiting")
        try:
            body = RunCode.model_validate_json(await request.read())
        except ValidationError as error:
            return _refusal(422, "; ".join(explain(error, RunCode)))
        self.n_waiting += 1
        try:
            return web.json_response(await self._answered(body))
        finally:
            self.n_waiting -= 1

    async def _answered(self, body: RunCode) -> dict[str, object]:
        began = time.monotonic()
        try:
            result = await self._run(body)
        except SandboxFailed as error:
            return _reply("SandboxError", None, message=str(error))
        run = _run_result(result, time.monotonic() - began)
        return _reply("Success" if result.status is CellStatus.OK else "Failed", run)

    async def _run(self, body: RunCode) -> CellResult:
        sandbox = await self.sandboxes.open()
        try:
            if body.stdin:
                given = f"import io, sys; sys.stdin = io.StringIO({body.stdin!r})"
                await self.sandboxes.run(sandbox, given)
            limit_s = min(body.run_timeout, self.limits.cell_s)
            # A script, and no notebook: the value of its last line is not printed.
            return await self.sandboxes.run(sandbox, f"{body.code}\nNone", limit_s)
        finally:
            await sandbox.close()

    def _is_allowed(self, request: web.Request) -> bool:
        if self.key is None:
            return True
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return hmac.compare_digest(given.encode(errors="replace"), self.key.encode())


def make_app(sandboxes: Sandboxes, limits: SandboxLimits, *, key: str | None) -> web.Application:
    """With a `key`, requests need the header `Authorization: Bearer <key>`."""
    service = _Service(sandboxes, limits, key)
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_post("/run_code", service.run_code)
    app.router.add_get("/health", _health)
    return app


async def _health(_: web.Request) -> web.Response:
    return web.json_response({"status": "ok"})


def _run_result(result: CellResult, execution_s: float) -> dict[str, object]:
    is_ok = result.status is CellStatus.OK
    is_late = result.status is CellStatus.TIMEOUT
    is_told = result.status in (CellStatus.OK, CellStatus.ERROR)
    return {
        "status": "TimeLimitExceeded" if is_late else "Finished",
        "execution_time": execution_s,
        "return_code": 0 if is_ok else 1,
        "stdout": result.output,
        "stderr": "" if is_told else f"[{result.status}]",
    }


def _reply(status: str, run: dict[str, object] | None, *, message: str = "") -> dict[str, object]:
    return {
        "status": status,
        "message": message,
        "compile_result": None,
        "run_result": run,
        "executor_pod_name": os.uname().nodename,
        "files": {},
    }


def _refusal(status: int, message: str) -> web.Response:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
    return web.json_response(
        _reply("SandboxError", None, message=message), status=status, headers=headers
    )
