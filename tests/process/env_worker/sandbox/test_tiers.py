"""Choosing a tier, state between cells, and what a cell prints, in every tier."""

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from pydantic import ValidationError

from warren.host_services.cells import CellStatus, SandboxFailed
from warren.host_services.settings import SandboxLimits, SandboxSettings, Tier
from warren_env_worker.permissions.permissions import TRUSTED
from warren_env_worker.sandbox import bubblewrap
from warren_env_worker.sandbox.opening import MAKERS, Sandboxes, Startable
from warren_env_worker.sandbox.plan import Plan
from warren_env_worker.sandbox.port import Sandbox
from warren_env_worker.sandbox.process import ProcessSandbox

TIERS: tuple[Tier, ...] = ("bubblewrap", "landlock", "monty")
LIMITS = SandboxLimits(cell_s=10.0, memory_mib=256, output_bytes=1000)


@asynccontextmanager
async def opened(tier: Tier, libraries: str | None = None) -> AsyncGenerator[Sandbox]:
    settings = SandboxSettings(tier=tier, limits=LIMITS, libraries=libraries)
    sandbox = await Sandboxes(settings, TRUSTED).open()
    try:
        yield sandbox
    finally:
        await sandbox.close()


@pytest.mark.parametrize("tier", TIERS)
async def test_cells_share_variables(tier: Tier) -> None:
    async with opened(tier) as sandbox:
        assert (sandbox.tier, sandbox.keeps_state) == (tier, True)
        assert (await sandbox.run("x = 6\ndef f(n):\n    return n * x", 60.0)).output == ""
        result = await sandbox.run("print('so')\nf(7)", 60.0)
        assert (result.status, result.output) == (CellStatus.OK, "so\n42\n")


@pytest.mark.parametrize("tier", TIERS)
async def test_errors_show_the_code_and_nothing_of_ours(tier: Tier) -> None:
    async with opened(tier) as sandbox:
        result = await sandbox.run("def f():\n    return 1 / 0\nf()", 60.0)
        assert result.status is CellStatus.ERROR
        assert "return 1 / 0" in result.output
        assert result.output.endswith("ZeroDivisionError: division by zero\n")
        assert "warren" not in result.output
        assert (await sandbox.run("x = (", 60.0)).status is CellStatus.ERROR


@pytest.mark.parametrize("tier", TIERS)
async def test_long_outputs_keep_both_ends(tier: Tier) -> None:
    async with opened(tier) as sandbox:
        result = await sandbox.run("print('a' * 2000 + 'é' + 'b' * 2000)", 60.0)
        assert result.status is CellStatus.OK
        assert len(result.output) < 1100
        assert result.output.startswith("aaa")
        assert result.output.endswith("bbb\n")
        assert " left out " in result.output


@pytest.mark.parametrize("tier", TIERS)
async def test_a_cell_that_is_stopped_leaves_a_session_that_works(tier: Tier) -> None:
    async with opened(tier) as sandbox:
        await sandbox.run("x = 42", 60.0)
        late = await sandbox.run("while True: pass", 2.0)
        expected = CellStatus.LOST if tier == "monty" else CellStatus.TIMEOUT
        assert late.status is expected
        after = await sandbox.run("x", 60.0)
        assert ("42" in after.output) == (tier != "monty")


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder that everybody can read."""
    with TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_libraries_can_be_imported(tier: Tier, public: Path) -> None:
    (public / "mine.py").write_text("answer = 42")
    with pytest.raises(SandboxFailed, match="libraries: no packages were installed"):
        await opened(tier, str(public)).__aenter__()
    (public / "mine-1.0.dist-info").mkdir()
    async with opened(tier, str(public)) as sandbox:
        assert (await sandbox.run("import mine; mine.answer", 60.0)).output == "42\n"


async def test_code_that_is_no_text_or_too_long_is_an_error() -> None:
    async with opened("bubblewrap") as sandbox:
        assert (await sandbox.run("'\ud800'", 60.0)).status is CellStatus.OK
        assert (await sandbox.run("x" * 100_000, 60.0)).status is CellStatus.ERROR
        assert (await sandbox.run("1\x00", 60.0)).status is CellStatus.ERROR


def _lacking(_: SandboxSettings) -> Startable:
    raise SandboxFailed("not here")


async def test_what_does_not_work_is_passed_over_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    makers = {**MAKERS, "bubblewrap": _lacking}
    sandbox = await Sandboxes(SandboxSettings(), TRUSTED, makers=makers).open()
    await sandbox.close()
    assert sandbox.tier == "landlock"
    assert "landlock (bubblewrap: not here)" in caplog.text
    makers = {**makers, "landlock": _lacking}
    sandbox = await Sandboxes(SandboxSettings(), TRUSTED, makers=makers).open()
    await sandbox.close()
    assert sandbox.tier == "monty"


async def test_a_tier_asked_for_is_not_replaced() -> None:
    makers = {**MAKERS, "bubblewrap": _lacking}
    with pytest.raises(SandboxFailed, match=r"no sandbox works here \(bubblewrap: not here\)"):
        await Sandboxes(SandboxSettings(tier="bubblewrap"), TRUSTED, makers=makers).open()


def _holed(settings: SandboxSettings) -> Startable:
    """Cells can read the host's configuration."""

    def plan() -> Plan:
        whole = bubblewrap.plan(settings)

        def program(socket: int) -> list[str]:
            command = list(whole.program(socket))
            end = command.index("--remount-ro")
            return [*command[:end], "--ro-bind", "/etc", "/etc", *command[end:]]

        return replace(whole, program=program)

    return ProcessSandbox("bubblewrap", plan)


async def test_walls_with_holes_do_not_count() -> None:
    makers = {**MAKERS, "bubblewrap": _holed}
    with pytest.raises(SandboxFailed, match=r"it is not isolated: .* None True True True True"):
        await Sandboxes(SandboxSettings(tier="bubblewrap"), TRUSTED, makers=makers).open()


@pytest.mark.parametrize("tier", ["bubblewrap", "landlock"])
async def test_memory_that_is_too_little_is_no_hole(tier: Tier) -> None:
    settings = SandboxSettings(tier=tier, limits=SandboxLimits(memory_mib=1))
    with pytest.raises(SandboxFailed, match=r"memory_mib: 1 may be too little") as failure:
        await Sandboxes(settings, TRUSTED).open()
    assert "holes" not in str(failure.value)


@pytest.fixture
def refusing(public: Path) -> Path:
    """A folder with a `bwrap` that says what a container without namespaces makes it say."""
    program = public / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    return public


async def test_a_host_that_forbids_namespaces_is_told(
    monkeypatch: pytest.MonkeyPatch, refusing: Path
) -> None:
    monkeypatch.setattr(os, "defpath", f"{refusing}:{os.defpath}")
    with pytest.raises(SandboxFailed, match="exit code 1: bwrap: No permissions to create"):
        await Sandboxes(SandboxSettings(tier="bubblewrap"), TRUSTED).open()


async def test_a_missing_bwrap_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxFailed, match=r"bwrap is not installed \(Debian: bubblewrap\)"):
        await Sandboxes(SandboxSettings(tier="bubblewrap"), TRUSTED).open()


def test_settings_that_contradict_themselves() -> None:
    for wrong in ({"tier": "http"}, {"url": "http://x"}, {"key_variable": "X"}, {"teir": "auto"}):
        with pytest.raises(ValidationError):
            SandboxSettings.model_validate(wrong)
    addressed = {"tier": "http", "url": "http://x"}
    with pytest.raises(ValidationError, match="must begin with WARREN_SECRET_"):
        SandboxSettings.model_validate({**addressed, "key_variable": "WARREN_BROKER_URL"})
