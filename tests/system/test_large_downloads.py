"""A policy of 2 GB over HTTP, from gateways that are killed meanwhile: whole, and in little memory."""

import asyncio
import contextlib
import hashlib
import json
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.deployment import Site, connected
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import start_program
from tests.support.small_install import small_python
from tests.system.service.scene import until

from warren_schemas.files import SEAL

pytestmark = [pytest.mark.storm, pytest.mark.thorough, several_waits]

SIZE_BYTES = 2 * 1000**3
BLOCK_BYTES = 8 * 1024 * 1024
MEMORY_BYTES = 128 * 1024 * 1024
"""That either side may take for it."""
DOWNLOAD = """
import json, resource, sys, warren
def peak():
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with warren.sync.connect() as client:
    run = client.run(sys.argv[1])
    before = peak()
    run.download("here")
    print(json.dumps({"before": before, "after": peak()}))
"""


@pytest.fixture
async def site(tmp_path: Path, private_rabbit: PrivateRabbit) -> AsyncGenerator[Site]:
    (tmp_path / "home").mkdir()
    site = Site(tmp_path / "home", private_rabbit.url, None)
    try:
        await site.start_gateway()
        yield site
    finally:
        await asyncio.to_thread(site.stop)


def seal_large_file(folder: Path) -> None:
    """A policy as a trainer leaves it, of which no block is like another."""
    folder.mkdir(parents=True)
    digest, left = hashlib.sha256(), SIZE_BYTES
    with (folder / "model.safetensors").open("wb") as file:
        while left:
            block = left.to_bytes(8, "little") * (min(BLOCK_BYTES, left) // 8)
            digest.update(block)
            left -= file.write(block)
    (folder / SEAL).write_text(f"{digest.hexdigest()}  model.safetensors\n")


def publish(site: Site, run: str, folder: Path) -> None:
    """As a coordinator stores it."""
    with (
        contextlib.closing(sqlite3.connect(site.home / "warren.db", timeout=PATIENCE_S)) as store,
        store,
    ):
        store.execute(
            "UPDATE model SET policy_url = ?, policy_version = 4, policies = ? WHERE run_id = ?",
            (folder.as_uri(), json.dumps([(0, 4)]), run),
        )


def memory_bytes(site: Site, what: str) -> int:
    """Of the gateway: `VmRSS` now, `VmHWM` at most so far."""
    status = Path(f"/proc/{site.processes['gateway'].pid}/status").read_text()
    return next(1024 * int(line.split()[1]) for line in status.splitlines() if what in line)


async def test_two_gigabytes_survive_restarts_of_the_gateway(site: Site, tmp_path: Path) -> None:
    folder, part = tmp_path / "p" / "v4", tmp_path / "here.part" / "model.safetensors"
    await asyncio.to_thread(seal_large_file, folder)
    async with connected(site) as client:
        run = await client.train(
            {"model": {"base": "warren/tiny"}, "environments": [{"name": "guess"}]}
        )
    publish(site, run.id, folder)

    async def has_come(share: float) -> None:
        async def has() -> bool:
            return part.exists() and part.stat().st_size >= share * SIZE_BYTES

        await until(has)

    key = (site.home / "api-key").read_text().strip()
    before_bytes, peaks_bytes = memory_bytes(site, "VmRSS"), list[int]()
    process = await start_program(
        *small_python(DOWNLOAD), run.id,
        environment={"WARREN_URL": site.url, "WARREN_API_KEY": key, "HOME": str(tmp_path)},
        folder=tmp_path,
    )  # fmt: skip
    for share in (0.2, 0.5):
        await has_come(share)
        peaks_bytes.append(memory_bytes(site, "VmHWM"))
        await site.kill("gateway")
        assert part.stat().st_size < SIZE_BYTES, "the download was over before the gateway was"
        await site.start_gateway()
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    peaks_bytes.append(memory_bytes(site, "VmHWM"))
    assert (tmp_path / "here" / "model.safetensors").stat().st_size == SIZE_BYTES
    assert (tmp_path / "here" / SEAL).read_text() == (folder / SEAL).read_text()
    peak = json.loads(out)
    assert peak["after"] - peak["before"] < MEMORY_BYTES
    assert max(peaks_bytes) - before_bytes < MEMORY_BYTES
