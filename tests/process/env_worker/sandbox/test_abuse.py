"""Hostile code in every tier, as root and as nobody: contained, and the host as healthy as before."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.support.abuse import COMMON, DISK, HELPERS, NO_DISK, SPOOFS, Case
from tests.support.patience import STOP_S, several_waits
from tests.support.unprivileged import run_as_nobody

from warren.host_services.cells import CellStatus
from warren.host_services.settings import SandboxLimits, SandboxSettings, Tier
from warren_env_worker.sandbox import bubblewrap, landlock
from warren_env_worker.sandbox.opening import MAKERS
from warren_env_worker.sandbox.port import Sandbox
from warren_env_worker.sandbox.process import GRACE_S

CELL_S = 10.0
N_FILES = 2000 + os.getpid() % 1000
"""By this number we know sandboxes of ours from those that others test with at the same time."""
LIMITS = SandboxLimits(cell_s=CELL_S, memory_mib=256, processes=16, disk_mib=16, files=N_FILES)
SUITES: dict[Tier, list[Case]] = {"bubblewrap": [*COMMON, *DISK], "landlock": [*COMMON, *NO_DISK]}

pytestmark = several_waits


async def contained(tier: Tier, cases: list[Case]) -> None:
    """Every case ends as it must, and leaves the variables from before it where it can."""
    sandbox = MAKERS[tier](SandboxSettings(tier=tier, limits=LIMITS))
    try:
        for case in cases:
            await _contained(sandbox, case, f"{tier}: {case.name}")
    finally:
        await sandbox.close()


async def _contained(sandbox: Sandbox, case: Case, name: str) -> None:
    assert (await sandbox.run(HELPERS, 60.0)).status is CellStatus.OK, name
    async with asyncio.timeout(case.limit_s + GRACE_S + STOP_S):
        result = await sandbox.run(case.code, case.limit_s)
    assert result.status in case.statuses, f"{name}: {result}"
    assert "BREACH" not in result.output, f"{name}: {result.output}"
    assert not case.prints_held or result.output.endswith("held\n"), f"{name}: {result}"
    after = await sandbox.run("print(kept)", 60.0)
    if result.status is not CellStatus.LOST and after.status is not CellStatus.LOST:
        assert after.output == "41\n", f"{name}: {after}"


async def spoofed(tier: Tier) -> None:
    """Who ruins its session gets another one, and no reply is taken for the next cell's."""
    sandbox = MAKERS[tier](SandboxSettings(tier=tier, limits=LIMITS))
    try:
        for case in SPOOFS:
            await sandbox.run(HELPERS, 60.0)
            result = await sandbox.run(case.code, case.limit_s)
            assert result.status in case.statuses, f"{tier}: {case.name}: {result}"
            after = await sandbox.run("print(6 * 7)", 60.0)  # it may be lost with this one
            if after.status is CellStatus.LOST:
                after = await sandbox.run("print(6 * 7)", 60.0)
            assert after.output == "42\n", f"{tier}: {case.name}: {after}"
            await sandbox.close()
    finally:
        await sandbox.close()


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_SECRET", "x")


async def besieged() -> None:
    """The tiers side by side, each with one session at a time: nobody's sessions share limits."""
    async with asyncio.TaskGroup() as group:
        for tier in SUITES:
            group.create_task(_besieged(tier), name=tier)


async def _besieged(tier: Tier) -> None:
    await contained(tier, SUITES[tier])
    await spoofed(tier)


async def test_abuse() -> None:
    before = _descriptors()
    await besieged()
    assert _descriptors() <= before
    assert not _processes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_abuse_without_rights() -> None:
    bubblewrap.plan(SandboxSettings())  # what is imported late is imported now
    landlock.plan(SandboxSettings())
    run_as_nobody(besieged)
    assert not _processes()


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _processes() -> list[str]:
    """Command lines of what runs in a sandbox of ours."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b'"n_files": %d,' % N_FILES in line:
            found.append(line.decode())
    return found
