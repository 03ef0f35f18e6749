"""Any service that speaks SandboxFusion's `/run_code`: each cell by itself, on another machine.

Invariants: no variables are kept between cells; a service that fails is asked again with growing
pauses, and then it is `SandboxFailed`, never a result.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import cast

import aiohttp

from warren_env_worker.sandbox.port import CellResult, CellStatus, SandboxFailed, shortened
from warren_env_worker.sandbox.settings import SandboxSettings

N_TRIES = 4
FIRST_PAUSE_S = 0.5
GRACE_S = 30.0
"""How long after a cell's limit the service may take to answer: it may have a queue."""


class RemoteSandbox:
    tier = "http"
    keeps_state = False

    def __init__(self, settings: SandboxSettings) -> None:
        assert settings.url is not None  # the settings see to that
        self._url = settings.url.rstrip("/").removesuffix("/run_code") + "/run_code"
        self._limits = settings.limits
        self._key_variable = settings.key_variable

    async def start(self) -> None:
        """Nothing to start. Raises `SandboxFailed` if the key is not there."""
        self._headers()

    async def run(self, code: str, limit_s: float) -> CellResult:
        """Run a cell. Raises `SandboxFailed`."""
        body = {
            "code": code.encode(errors="replace").decode(),
            "language": "python",
            "run_timeout": limit_s,
            "compile_timeout": limit_s,
            "memory_limit_MB": self._limits.memory_mib,
        }
        reason = ""
        async with aiohttp.ClientSession(
            headers=self._headers(), timeout=aiohttp.ClientTimeout(total=limit_s + GRACE_S)
        ) as session:
            for number in range(N_TRIES):
                if number:
                    await asyncio.sleep(FIRST_PAUSE_S * 2 ** (number - 1))
                try:
                    return self._result(await _posted(session, self._url, body))
                except (aiohttp.ClientError, TimeoutError, ValueError) as error:
                    reason = str(error) or type(error).__name__
        raise SandboxFailed(f"{self._url} failed {N_TRIES} times: {reason}")

    async def close(self) -> None:
        """Nothing to do."""

    def _headers(self) -> dict[str, str]:
        if self._key_variable is None:
            return {}
        key = os.environ.get(self._key_variable, "").strip()
        if not key:
            raise SandboxFailed(f"the environment variable {self._key_variable} is not set")
        return {"Authorization": f"Bearer {key}"}

    def _result(self, reply: Mapping[str, object]) -> CellResult:
        fields = cast("Mapping[str, object]", reply.get("run_result") or {})
        printed = f"{fields.get('stdout') or ''}{fields.get('stderr') or ''}"
        status = {
            "Success": CellStatus.OK,
            "Failed": CellStatus.ERROR,
        }.get(str(reply.get("status")))
        if status is None:
            raise ValueError(f"the service says {reply.get('status')}: {reply.get('message')}")
        if fields.get("status") == "TimeLimitExceeded":
            status = CellStatus.TIMEOUT
        return CellResult(status, shortened(printed, self._limits.output_bytes))


async def _posted(
    session: aiohttp.ClientSession, url: str, body: Mapping[str, object]
) -> Mapping[str, object]:
    async with session.post(url, json=body) as response:
        response.raise_for_status()
        reply: object = await response.json(content_type=None)
    if not isinstance(reply, dict):
        raise ValueError("the service answered with something that is no object")  # noqa: TRY004
    return cast("Mapping[str, object]", reply)
