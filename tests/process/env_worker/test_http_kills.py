"""Env workers and servers of the environment `http` that are killed while episodes and a run are at it: no group is lost."""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.real_server import RealServer
from tests.ecosystems.whole_run import WholeRun, play_through_loss
from tests.process.env_worker.test_http_examples import command
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import free_port

__all__ = ["command"]
CLASS = "warren_env_worker.environments.http.environment:Http"
HELD = "tests.ecosystems.held:HeldHttp"
N_NUMBERS = 10
"""That a policy has to try one after the other."""


@pytest.fixture
def server(command: list[str], tmp_path: Path) -> Generator[RealServer]:
    server = RealServer(tuple(command), free_port(), tmp_path / "server.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


def config(server: RealServer) -> dict[str, object]:
    return {"url": server.url, "config": {"guesses": N_NUMBERS}, "patience_s": PATIENCE_S}


@pytest.mark.server
@several_waits
async def test_a_killed_env_worker_costs_nothing(
    server: RealServer, private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    """Its episodes move to another one, which may ask the server by its operator's policy."""
    allowed = {"services": [{"url": server.url, "private": True}]}
    of = spec("http", environment_config=config(server), max_turns=N_NUMBERS)
    workers = TwoWorkers(private_rabbit, tmp_path, CLASS, allowed, turn=1, n_episodes=1)
    assert await workers.rewards(of, lambda item: str(item.turn)) == {1.0}


@pytest.mark.slow
@several_waits
async def test_a_server_that_is_killed_in_a_run_costs_no_group(
    server: RealServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = WholeRun("http", HELD, config(server))
    await play_through_loss(run, tmp_path, server.start_again)
    assert f"{server.url} lost an episode of" in capfd.readouterr().err
