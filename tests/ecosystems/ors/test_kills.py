"""Env workers and servers of ORS that are killed while episodes and a run are at it: no group is lost."""

from pathlib import Path

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.ors.serving import IN_THE_CI, PACKAGES, call, serving
from tests.ecosystems.whole_run import WholeRun, play_through_loss
from tests.support.interacting import spec
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit

from warren_schemas.episode import Generate

pytestmark = pytest.mark.server
CLASS = "warren_env_worker.environments.ors.environment:Ors"
HELD = "tests.ecosystems.held:HeldOrs"


@several_waits
@pytest.mark.parametrize("package", IN_THE_CI)
@pytest.mark.shows("ORS client", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    package: str, private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    """Its episodes move to another one, which may ask the server by its operator's policy."""

    def policy(item: Generate) -> str:
        shown = [m.content[0] for m in item.transcript.messages if m.role == "tool"]
        n_seen = len(shown)
        return call("look", place=n_seen) if n_seen < 4 else call("open", code="".join(shown))

    with serving(package, tmp_path) as server:
        config = {"url": server.url, "environment": "vault"}
        allowed = {"services": [{"url": server.url, "private": True}]}
        of = spec("ors", environment_config=config, max_turns=9)
        workers = TwoWorkers(private_rabbit, tmp_path, CLASS, allowed)
        assert await workers.rewards(of, policy) == {1.4}


@pytest.mark.ecosystem_all
@pytest.mark.parametrize("package", PACKAGES)
@pytest.mark.shows("ORS client", "evaluation", "foreign process killed")
@several_waits
async def test_a_server_that_is_killed_in_a_run_costs_no_group(
    package: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(package, tmp_path) as server:
        config = {"url": server.url, "environment": "vault", "patience_s": PATIENCE_S}
        run = WholeRun("ors", HELD, config, evaluation_split="test")
        await play_through_loss(run, tmp_path, server.start_again)
    assert f"{server.url} lost the session of" in capfd.readouterr().err
