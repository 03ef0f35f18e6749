"""The service for `/run_code`, and the tier that uses one."""

from collections.abc import AsyncGenerator

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from warren.environment import ConfigError
from warren.host_services.cells import CellStatus, SandboxFailed
from warren.host_services.settings import SandboxLimits, SandboxSettings
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.sandbox import remote
from warren_env_worker.sandbox.opening import Sandboxes
from warren_env_worker.sandbox.remote import RemoteSandbox
from warren_env_worker.sandbox.server import make_app

LIMITS = SandboxLimits(cell_s=20.0)


@pytest_asyncio.fixture
async def url() -> AsyncGenerator[str]:
    app = make_app(Sandboxes(SandboxSettings(limits=LIMITS), TRUSTED), LIMITS, key="secret")
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def posted(url: str, body: object, key: str = "secret") -> tuple[int, dict[str, object]]:
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(f"{url}run_code", json=body) as response,
    ):
        return response.status, await response.json()


async def ran(url: str, **body: object) -> tuple[object, object]:
    status, reply = await posted(url, {"language": "python", **body})
    assert status == 200
    return reply["status"], reply["run_result"]


async def test_scripts(url: str) -> None:
    status, run = await ran(url, code="import sys\nprint(6 * 7)\n5", compile_timeout=1)
    assert status == "Success"
    assert isinstance(run, dict)
    assert (run["status"], run["return_code"], run["stdout"]) == ("Finished", 0, "42\n")
    status, run = await ran(url, code="1 / 0")
    assert status == "Failed"
    assert "ZeroDivisionError" in str(run)
    status, run = await ran(url, code="while True: pass", run_timeout=1)
    assert status == "Failed"
    assert "TimeLimitExceeded" in str(run)
    _, run = await ran(url, code="print(input())", stdin="hello\n")
    assert "hello" in str(run)


async def test_requests_that_are_refused(url: str) -> None:
    good = {"code": "1", "language": "python"}
    assert (await posted(url, good, key="other"))[0] == 401
    for wrong in ({"code": "1"}, {**good, "language": "rust"}, {**good, "files": {"a": "b"}}, 1):
        status, reply = await posted(url, wrong)
        assert status == 422
        assert reply["status"] == "SandboxError"


async def test_the_tier_http(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SandboxSettings(
        tier="http", url=url, key_variable="WARREN_SECRET_SANDBOX", limits=LIMITS
    )
    with pytest.raises(ConfigError, match="WARREN_SECRET_SANDBOX is not set"):
        Sandboxes(settings, TRUSTED)
    monkeypatch.setenv("WARREN_SECRET_SANDBOX", "secret")
    sandbox = await Sandboxes(settings, TRUSTED).open()
    assert not sandbox.keeps_state
    result = await sandbox.run("x = 42\nprint(x)", 20.0)
    assert (result.status, result.output) == (CellStatus.OK, "42\n")
    result = await sandbox.run("print(x)", 20.0)
    assert result.status is CellStatus.ERROR
    assert "NameError" in result.output
    assert (await sandbox.run("while True: pass", 1.0)).status is CellStatus.TIMEOUT


async def test_services_that_fail_are_asked_again() -> None:
    answers = [
        web.Response(status=504),
        web.Response(text="no json"),
        web.json_response({"status": "SandboxError", "message": "no space"}),
        web.json_response({"status": "Success", "run_result": {"stdout": "42", "stderr": ""}}),
        *(web.Response(status=500) for _ in range(remote.N_TRIES)),
    ]

    async def answer(_: web.Request) -> web.Response:
        return answers.pop(0)

    app = web.Application()
    app.router.add_post("/run_code", answer)
    async with TestServer(app) as server:
        url = str(server.make_url("/run_code"))
        sandbox = RemoteSandbox(TRUSTED.service(url, None), SandboxLimits(), first_pause_s=0.01)
        assert (await sandbox.run("x", 5.0)).output == "42"
        with pytest.raises(SandboxFailed, match="it can't be reached"):
            await sandbox.run("x", 5.0)
    with pytest.raises(SandboxFailed, match="it can't be reached"):
        await sandbox.run("x", 5.0)
