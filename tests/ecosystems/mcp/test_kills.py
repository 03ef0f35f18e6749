"""Env workers and servers of MCP that are killed while episodes and a run are at it: no group is lost."""

from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.killed_worker import TwoWorkers
from tests.ecosystems.mcp.serving import (
    CLASS,
    call,
    http,
    installed,
    not_in_ci,
    questions,
    servers,
)
from tests.ecosystems.real_server import RealServer
from tests.ecosystems.whole_run import WholeRun, starting_again
from tests.support.interacting import spec
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.question_files import write_lines

from warren_schemas.episode import Generate

__all__ = ["installed", "questions", "servers"]
pytestmark = pytest.mark.server
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


@not_in_ci
@pytest.mark.shows("MCP", "evaluation", "foreign process killed")
@several_waits
async def test_a_server_that_is_killed_in_a_run_costs_no_group(
    tmp_path: Path, servers: dict[str, RealServer]
) -> None:
    config: dict[str, Any] = {
        "servers": {"shop": http(servers["stateless"], tools=["price"])},
        "path": str(write_lines(tmp_path / "questions.jsonl", {"question": "What is tea?"})),
        "needs_answers": False,
        "instruction": "",
        "patience_s": 120.0,
    }
    rewards = [{"kind": "function", "function": REWARD}]
    await WholeRun("mcp", CLASS, config, rewards).play(
        tmp_path, starting_again(servers["stateless"])
    )
