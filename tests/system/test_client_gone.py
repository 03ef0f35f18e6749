"""A run that ends with its client: a notebook's process is killed, and the trainer is free within the lease.

The gateway is killed, too: while the client lives, and once it is gone.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.brokers import eventually
from tests.support.deployment import Site, connected, store_of
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import spawn

from warren import Client, Run
from warren_schemas.events import RunState

pytestmark = [pytest.mark.storm, pytest.mark.thorough, several_waits]

NOTEBOOK = """
import time, warren
client = warren.sync.connect()
client.train({
    "name": "of-a-notebook",
    "model": {"base": "warren/tiny"},
    "environments": [{"name": "guess"}],
    "sft": {"steps": 4, "episodes_per_step": 8},
    "limits": {"steps": 1_000_000},
}, on_disconnect="cancel", client_lease_s=3.0)
time.sleep(1e6)  # at its prompt, or in a computation
"""
COMMAND = (
    "name: of-a-command\nmodel: {base: warren/tiny}\nenvironments: [{name: guess}]\n"
    "sft: {steps: 4, episodes_per_step: 8}\nlimits: {steps: 1000000}\n"
)


@pytest.fixture(params=["sqlite", "postgresql"])
async def site(
    request: pytest.FixtureRequest, tmp_path: Path, private_rabbit: PrivateRabbit
) -> AsyncGenerator[Site]:
    site = Site(tmp_path, private_rabbit.url, store_of(request))
    try:
        await site.start_all()
        yield site
    finally:
        await asyncio.to_thread(site.stop)


def start_client(site: Site, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
    key = (site.home / "api-key").read_text().strip()
    variables = {**os.environ, "WARREN_URL": site.url, "WARREN_API_KEY": key}
    process = spawn([sys.executable, *arguments], log_path=site.log(name), environment=variables)
    site.processes[name] = process
    return process


async def started(client: Client, name: str, step: int) -> Run:
    async def is_there() -> bool:
        return any(run.view.name == name for run in await client.runs())

    await eventually(is_there)
    run = await client.run(name)
    await until(run, RunState.RUNNING, step)
    return run


async def until(run: Run, state: RunState, step: int = 0) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await run.refresh()).state is not state or run.view.step < step:
            assert not run.view.state.is_final, run.view.error
            await asyncio.sleep(0.2)


async def until_ended(client: Client, run: Run) -> str:
    """Why it was cancelled; its trainer is free, and it is saved."""

    async def has_ended() -> bool:
        return (await run.refresh()).state.is_final

    async def is_nothing_held() -> bool:
        return not any(worker.models for worker in await client.workers())

    await eventually(has_ended)
    await eventually(is_nothing_held)
    last = run.view.history[-1]
    assert last.state is RunState.CANCELLED
    assert last.reason is not None and "; saved as step-" in last.reason
    assert (await run.checkpoints()).checkpoints
    return last.reason


async def test_parity_row_13_the_run_of_a_killed_notebook_is_saved_and_cancelled_within_its_lease(
    site: Site,
) -> None:
    notebook = start_client(site, "notebook", "-c", NOTEBOOK)
    async with connected(site) as client:
        run = await started(client, "of-a-notebook", step=2)
        await site.kill("gateway")
        await site.start_gateway()
        await until(run, RunState.RUNNING, step=run.view.step + 3)
        renewed_s = run.view.client_until_s or 0.0

        async def is_renewed() -> bool:
            return ((await run.refresh()).client_until_s or 0.0) > renewed_s

        await eventually(is_renewed)  # by the client that was there before

        notebook.kill()
        await site.kill("gateway")
        await site.start_gateway()
        assert "its client was gone" in await until_ended(client, run)


async def test_parity_row_13_ctrl_c_ends_a_run_that_ends_with_its_client(site: Site) -> None:
    config = site.home / "run.yaml"
    config.write_text(COMMAND)
    words = ("-m", "warren", "train", str(config), "--on-disconnect", "cancel")
    command = start_client(site, "command", *words)
    async with connected(site) as client:
        run = await started(client, "of-a-command", step=2)
        command.send_signal(signal.SIGINT)
        assert "cancelled by its owner" in await until_ended(client, run)
    assert await asyncio.to_thread(command.wait, PATIENCE_S) == 130
    assert "saved and cancelled" in site.log("command").read_text()
