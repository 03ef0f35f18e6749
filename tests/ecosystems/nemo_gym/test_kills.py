"""Env workers and servers of NeMo Gym that are killed while many episodes and a run are at it: no group is lost."""

from pathlib import Path

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.nemo_gym.serving import CLASS, call, path, server
from tests.ecosystems.real_server import RealServer
from tests.ecosystems.whole_run import WholeRun, play_through_loss
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

from warren_schemas.episode import Generate

__all__ = ["server"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
COUNTER, TURNS = "example_session_state_mgmt", "example_multi_turn_gymnasium"
GYMNASIUM = "warren_env_worker.environments.nemo_gym.stepping:NemoGymnasium"


@pytest.mark.shows("NeMo Gym", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    server: RealServer, private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    """Its episodes move to another one, which may ask the server by its operator's policy."""

    def policy(item: Generate) -> str:
        shown = [m.content for m in item.transcript.messages if m.role == "tool"]
        asked = item.transcript.messages[1].content
        return "Done." if len(shown) == 4 else _step(asked, len(shown))

    url = f"{server.url}counter/"
    allowed = {
        "services": [{"url": url, "private": True}],
        "data_root": str(Path(path(COUNTER)).parent),
    }
    of = spec("nemo_gym", environment_config={"url": url, "path": "example.jsonl"}, max_turns=9)
    assert await TwoWorkers(private_rabbit, tmp_path, CLASS, allowed).rewards(of, policy) == {1.0}


@pytest.mark.shows("NeMo Gym", "env worker killed")
async def test_a_killed_env_worker_costs_nothing_where_the_server_answers_every_turn(
    server: RealServer, private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    said = ("Paris.", "Two million.", "The Eiffel tower.")
    url = f"{server.url}turns/"
    allowed = {
        "services": [{"url": url, "private": True}],
        "data_root": str(Path(path(TURNS)).parent),
    }
    config = {"url": url, "path": "example.jsonl"}
    of = spec("nemo_gymnasium", environment_config=config, max_turns=9)
    workers = TwoWorkers(private_rabbit, tmp_path, GYMNASIUM, allowed, turn=2)
    assert await workers.rewards(of, lambda item: said[item.turn]) == {1.0}


@pytest.mark.shows("NeMo Gym", "evaluation", "foreign process killed")
@several_waits
@pytest.mark.parametrize(
    ("name", "served", "of", "held"),
    [
        ("nemo_gym", "counter", COUNTER, "HeldNemoGym"),
        ("nemo_gymnasium", "turns", TURNS, "HeldNemoGymnasium"),
    ],
)
async def test_a_server_that_is_killed_in_a_run_costs_no_group(
    server: RealServer,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    name: str,
    served: str,
    of: str,
    held: str,
) -> None:
    config = {"url": f"{server.url}{served}/", "path": path(of), "patience_s": 120.0}
    run = WholeRun(name, f"tests.ecosystems.held:{held}", config)
    await play_through_loss(run, tmp_path, server.start_again)
    assert f"{config['url']} lost a session" in capfd.readouterr().err


def _step(asked: str, number: int) -> str:
    """What the words of a row of the counter ask for: add 1 then add 2 then get the count."""
    words = asked.split(" then ")
    if number >= len(words):
        return call("get_counter_value")
    added = words[number].removeprefix("add ")
    return (
        call("increment_counter", count=int(added))
        if added.isdigit()
        else call("get_counter_value")
    )
