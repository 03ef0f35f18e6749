"""Env workers and servers of NeMo Gym that are killed while many episodes and a run are at it: no group is lost."""

from pathlib import Path

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.nemo_gym.serving import CLASS, call, path, server
from tests.ecosystems.real_server import RealServer
from tests.ecosystems.whole_run import WholeRun, starting_again
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.question_files import write_lines

from warren_schemas.episode import Generate

__all__ = ["server"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
COUNTER = "example_session_state_mgmt"


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


@pytest.mark.shows("NeMo Gym", "evaluation", "foreign process killed")
@several_waits
async def test_a_server_that_is_killed_in_a_run_costs_no_group(
    tmp_path: Path, server: RealServer
) -> None:
    rows = write_lines(tmp_path / "rows.jsonl", {"responses_create_params": {"input": "Speak."}})
    config = {"url": f"{server.url}clock/", "path": str(rows), "patience_s": 120.0}
    await WholeRun("nemo_gym", CLASS, config).play(tmp_path, starting_again(server))


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
