"""Env workers and servers of OpenEnv that are killed while episodes and a run are at it: no group is lost."""

from pathlib import Path

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.openenv.test_openenv import DIGITS, server
from tests.ecosystems.real_server import RealServer
from tests.ecosystems.whole_run import WholeRun, play_through_loss
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

from warren_schemas.episode import Generate

__all__ = ["server"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
CLASS = "warren_env_worker.environments.openenv.environment:OpenEnv"
HELD = "tests.ecosystems.held:HeldOpenEnv"


@pytest.mark.shows("OpenEnv", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    server: RealServer, private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    """Its episodes move to another one, which may ask the server by its operator's policy."""

    def policy(item: Generate) -> str:
        shown = [m.content[0] for m in item.transcript.messages if m.role == "user"][1:]
        return DIGITS[len(shown)] if len(shown) < 4 else "".join(shown)

    config = {"url": f"{server.url}vault/", "tasks_of": "Vault", "shown": ["text"]}
    allowed = {"services": [{"url": config["url"], "private": True}]}
    of = spec("openenv", environment_config=config, max_turns=9)
    assert await TwoWorkers(private_rabbit, tmp_path, CLASS, allowed).rewards(of, policy) == {1.4}


@pytest.mark.shows("OpenEnv", "evaluation", "foreign process killed")
@several_waits
async def test_a_server_that_is_killed_in_a_run_costs_no_group(
    server: RealServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = {"url": f"{server.url}vault/", "tasks_of": "Vault", "patience_s": 120.0}
    run = WholeRun("openenv", HELD, config, evaluation_split="test")
    await play_through_loss(run, tmp_path, server.start_again)
    assert f"{config['url']} lost a session" in capfd.readouterr().err
