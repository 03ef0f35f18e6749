"""Env workers and servers of MCP that are killed while episodes and a run are at it: no group is lost."""

from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.mcp.serving import (
    CLASS,
    STDIO,
    call,
    http,
    installed,
    not_in_ci,
    questions,
    servers,
)
from tests.ecosystems.real_server import RealServer
from tests.ecosystems.whole_run import WholeRun, fork_servers, play_through_loss
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import children, kill_and_wait
from tests.support.question_files import write_lines

from warren_schemas.episode import Generate

__all__ = ["installed", "questions", "servers"]
pytestmark = pytest.mark.server
HELD = "tests.ecosystems.held:HeldMcp"
REWARD = "tests.unit.env_worker.rewards.functions:checksum"


@not_in_ci
@pytest.mark.shows("MCP", "env worker killed")
async def test_a_killed_env_worker_costs_nothing(
    servers: dict[str, RealServer], private_rabbit: PrivateRabbit, tmp_path: Path, questions: str
) -> None:
    def policy(item: Generate) -> str:
        return call("put", article="tea") if item.turn < 5 else "Together they cost \\boxed{7}."

    of_server = http(servers["sessions"], sessions=True)
    config: dict[str, Any] = {"servers": {"shop": of_server}, "path": Path(questions).name}
    allowed = {
        "services": [{"url": servers["sessions"].url, "private": True}],
        "data_root": str(Path(questions).parent),
    }
    of = spec("mcp", environment_config=config)
    assert await TwoWorkers(private_rabbit, tmp_path, CLASS, allowed).rewards(of, policy) == {1.0}


def of_run(folder: Path, of_server: dict[str, Any]) -> WholeRun:
    config: dict[str, Any] = {
        "servers": {"shop": of_server},
        "path": str(write_lines(folder / "questions.jsonl", {"question": "What is tea?"})),
        "needs_answers": False,
        "instruction": "",
        "patience_s": 120.0,
    }
    return WholeRun("mcp", HELD, config, [{"kind": "function", "function": REWARD}])


def kill_programs() -> None:
    """Servers that are programs: children of the episodes' processes."""
    episodes = [pid for server in fork_servers() for pid in children(server)]
    programs = [pid for episode in episodes for pid in children(episode)]
    assert programs
    kill_and_wait(programs)


@not_in_ci
@pytest.mark.shows("MCP", "evaluation", "foreign process killed")
@several_waits
@pytest.mark.parametrize("kind", ["sessions", "stdio"])
async def test_a_server_that_is_killed_in_a_run_costs_no_group(
    tmp_path: Path, servers: dict[str, RealServer], capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    """With its sessions, whose second call must be their second again."""
    if kind == "stdio":
        run, kill = of_run(tmp_path, STDIO), kill_programs
    else:
        of_server = http(servers[kind], sessions=True)
        run, kill = of_run(tmp_path, of_server), servers[kind].start_again
    played = await play_through_loss(run, tmp_path, kill)
    second = {view.trajectory.transcript.messages[-2].content for view in played}
    assert second == {"2 in the basket"}
    assert "a process of mcp was lost" in capfd.readouterr().err
