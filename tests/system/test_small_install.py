"""What works where only the small install is: `pip install .` in a clone, without any extra."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.gateway import Gateway, open_gateway
from tests.support.patience import PATIENCE_S
from tests.support.processes import start_program
from tests.support.small_install import SMALL_WARREN
from tests.unit.gateway.api.test_files import published, seal

from warren_broker.memory import open_memory
from warren_gateway.store.store import Store


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncGenerator[Gateway]:
    store = await Store.open(f"sqlite:///{tmp_path / 'warren.db'}")
    async with (
        open_memory(None, name="gateway") as broker,
        open_gateway(store, broker, tmp_path / "runs") as gateway,
    ):
        registry = asyncio.create_task(gateway.services.registry.run())
        yield gateway
        registry.cancel()
    await store.close()


async def started(gateway: Gateway, home: Path, *words: str) -> asyncio.subprocess.Process:
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    named = {"WARREN_URL": gateway.url, "WARREN_API_KEY": key, "WARREN_HOME": str(home)}
    return await start_program(
        *SMALL_WARREN, *words,
        folder=home, environment=os.environ | named, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip


async def told(gateway: Gateway, home: Path, *words: str) -> tuple[int | None, str]:
    process = await started(gateway, home, *words)
    async with asyncio.timeout(PATIENCE_S):
        out, _ = await process.communicate()
    return process.returncode, out.decode()


async def test_runs_files_and_adapters(gateway: Gateway, tmp_path: Path) -> None:
    adapter = {"adapter_model.safetensors": b"weights", "adapter_config.json": b"{}"}
    seal(tmp_path / "p" / "v4", **adapter)
    run = await published(gateway, tmp_path / "p" / "v4")
    assert (await told(gateway, tmp_path, "--help"))[0] == 0
    code, out = await told(gateway, tmp_path, "runs", "ls")
    assert code == 0 and run in out
    code, out = await told(gateway, tmp_path, "checkpoints", "download", "last", "--to", "a/b")
    assert code == 0, out
    assert (tmp_path / "a/b/adapter_config.json").read_bytes() == b"{}"
    code, out = await told(gateway, tmp_path, "export", "last", "--to", "mine", "--adapter")
    assert code == 0, out
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == sorted(adapter)
    code, out = await told(gateway, tmp_path, "export", "last", "--to", "merged")
    assert code == 2 and "pip install '.[gpu]'" in out and "--adapter" in out


async def test_an_env_worker_of_ones_own(gateway: Gateway, tmp_path: Path) -> None:
    words = ("env-worker", "--gateway", gateway.url, "--only")
    guess = "warren_env_worker.environments.guess:Guess"
    worker = await started(gateway, tmp_path, *words, "--env", guess)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not gateway.services.registry.alive():
                await gateway.services.registry.changed()
        (heartbeat,) = gateway.services.registry.alive()
        assert heartbeat.offers == ("guess",) and heartbeat.owner == "ann"
        assert heartbeat.shapes[0].keys == ("low", "high", "guesses")
    finally:
        worker.send_signal(signal.SIGTERM)
        out, _ = await worker.communicate()
    assert worker.returncode == 0, out.decode()
