"""Agents of real packages, unmodified: each keeps one conversation, and each learns.

They run in `.venv-agents`, whose packages stand before those of `.venv`: so the whole deployment does.
"""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from tests.support.patience import PATIENCE_S, STOP_S, whole_deployment
from tests.support.processes import end, free_port, spawn, wait_until

import warren

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-agents" / "bin" / "python"
FOLDER = ROOT / "examples" / "agents"
PLAY_ONE = Path(__file__).with_name("play_one.py")

LEARNERS = {
    "with_openai": "WithOpenAI",
    "with_openai_agents": "WithOpenAIAgents",
    "with_anthropic": "WithAnthropic",
    "with_smolagents": "WithSmolagents",
    "with_langgraph": "WithLangGraph",
    "with_curl": "WithCurl",
}


def variables(home: Path | None = None) -> dict[str, str]:
    own = {"PYTHONPATH": str(FOLDER), "OMP_NUM_THREADS": "1"}
    return {**os.environ, **own, **({"WARREN_HOME": str(home)} if home else {})}


def played(reference: str) -> dict[str, object]:
    command = [str(PYTHON), str(PLAY_ONE), reference]
    done = subprocess.run(
        command, env=variables(), capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.ecosystem
@pytest.mark.parametrize("module", LEARNERS)
def test_its_calls_are_one_conversation(module: str) -> None:
    told = played(f"{module}:{LEARNERS[module]}")
    assert told == {
        "reward": 1.0,
        "roles": ["user", "assistant", "user", "assistant"],
        "after": [1, None],  # behind the first action, which is the last one: no branch
    }


@pytest.mark.ecosystem
def test_an_agent_that_writes_its_history_anew_makes_a_branch() -> None:
    """`smolagents` tells its own calls as texts from then on."""
    told = played("with_smolagents:ToolCalls")
    assert told["reward"] == 1.0
    assert told["after"] == [0, None]


@asynccontextmanager
async def deployment(home: Path, port: int, *options: str) -> AsyncGenerator[warren.Client]:
    command = [str(PYTHON), "-m", "warren", "up", "--port", str(port), *options]
    process = spawn(command, log_path=home / "log", environment=variables(home))
    try:
        await asyncio.to_thread(
            wait_until,
            lambda: "Ready." in (home / "log").read_text(),
            process,
            deadline_s=PATIENCE_S,
            log_path=home / "log",
        )
        key = (home / "api-key").read_text().strip()
        async with warren.connect(f"http://127.0.0.1:{port}", key) as client:
            yield client
    finally:
        end(process, signal.SIGTERM, grace_s=STOP_S)


@pytest.mark.ecosystem_all
@whole_deployment
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("module", LEARNERS)
async def test_it_learns(tmp_path: Path, module: str, seed: int) -> None:
    config: dict[str, object] = yaml.safe_load((FOLDER / "two_digits.yaml").read_text())
    config |= {"seed": seed, "environments": [{"name": module}]}
    hosted = ("--env", f"{module}:{LEARNERS[module]}")
    async with deployment(tmp_path, free_port(), *hosted) as client:
        run = await client.train(config)
        rises(await run.result())


@pytest.mark.ecosystem_all
@whole_deployment
async def test_a_loop_of_one_s_own_learns(tmp_path: Path) -> None:
    port = free_port()
    own = {"WARREN_URL": f"http://127.0.0.1:{port}", **variables(tmp_path)}
    async with deployment(tmp_path, port) as client:
        command = [str(PYTHON), str(FOLDER / "own_loop.py")]
        loop = spawn(command, log_path=tmp_path / "loop", environment=own)
        assert await asyncio.to_thread(loop.wait) == 0, (tmp_path / "loop").read_text()
        (run,) = await client.runs()
        rises(await run.result())


def rises(result: warren.RunResult) -> None:
    assert result.reward_before is not None
    assert result.reward_after is not None
    assert result.reward_after >= result.reward_before + 0.3
