"""`warren env new` makes what trains at once: its reward rises on the tiny model. And a served environment trains as one that is here."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import Process
from pathlib import Path

import pytest
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.processes import free_port, start_program

pytestmark = [pytest.mark.storm, several_waits]

REWARDS = re.compile(r"reward (before|after) \(greedy\) +([01]\.\d+)")


async def warren(folder: Path, *words: str) -> Process:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_")}
    variables = {**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return await start_program(
        sys.executable, "-m", "warren", *words,
        folder=folder, environment=variables, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


async def line_with(process: Process, words: str) -> str:
    async with asyncio.timeout(PATIENCE_S):
        assert process.stdout is not None
        while words not in (line := (await process.stdout.readline()).decode()):
            assert line, f"it ended before it said {words}"
        return line


async def end(*processes: Process) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        await asyncio.wait_for(process.communicate(), PATIENCE_S)


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    made = await warren(tmp_path, "env", "new", "my_env")
    await asyncio.wait_for(made.communicate(), PATIENCE_S)
    assert made.returncode == 0
    return tmp_path / "my_env"


async def trained(folder: Path, up: tuple[str, ...], *options: str) -> dict[str, float]:
    """Rewards before and after."""
    port, home = str(free_port()), folder / "home"
    serving = await warren(folder, "up", *up, "--port", port, "--home", str(home))
    try:
        await line_with(serving, "warren train")
        key = (home / "api-key").read_text()
        there = ("--url", f"http://127.0.0.1:{port}", "--api-key", key)
        train = await warren(folder, "train", "my_env.yaml", *there, *options)
        out, _ = await asyncio.wait_for(train.communicate(), 3 * PATIENCE_S)
    finally:
        await end(serving)
    assert train.returncode == 0, out.decode()
    return {when: float(reward) for when, reward in REWARDS.findall(out.decode())}


async def test_a_new_environment_trains_with_a_rising_reward(folder: Path) -> None:
    rewards = await trained(folder, ("--env", "my_env:MyEnv"))
    assert rewards["after"] > rewards["before"] + 0.2


@pytest.mark.thorough
async def test_a_served_environment_trains_as_one_that_is_here(folder: Path) -> None:
    port = str(free_port())
    served = await warren(folder, "env", "serve", "my_env:MyEnv", "--port", port)
    config = (folder / "my_env.yaml").read_text()
    http = (
        f"  - name: http\n    config: {{url: 'http://127.0.0.1:{port}/', config: {{highest: 9}}}}"
    )
    there = config.replace("  - name: my_env\n    config: {highest: 9}", http)
    assert there != config
    (folder / "my_env.yaml").write_text(there)
    try:
        rewards = await trained(folder, ())
    finally:
        await end(served)
    assert rewards["after"] > rewards["before"] + 0.2
