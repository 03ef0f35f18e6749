"""What an environment's process prints."""

import os
from pathlib import Path

import pytest
from tests.support.hosting import hosting, observed, playing, refused

from warren_env_worker.output.log import log_path


@pytest.mark.parametrize("class_name", ["Speaker", "SharedSpeaker"])
async def test_what_an_environment_prints_is_kept_apart(
    class_name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with hosting(class_name, log_dir=tmp_path) as host:
        await observed((await playing(host)).step("a"))
    kept = log_path(tmp_path, f"tests.support.environments:{class_name}").read_text()
    tag = "[group_1 member 0, train 0] " if class_name == "Speaker" else ""
    worker = f" worker {os.getpid()} "
    words = [line.partition(worker)[2] for line in kept.splitlines()]
    assert words == [f"{tag}printed by Python", f"{tag}printed from below"]
    assert "printed" not in capfd.readouterr().err


async def test_a_shared_process_that_hangs_says_where(tmp_path: Path) -> None:
    async with hosting("Hurried", log_dir=tmp_path) as host:
        player = await playing(host, deed="hang")
        reason = (await refused(player.step("evil"))).reason
    assert "; it waits at " in reason
    assert "time.sleep" in reason


async def test_the_last_words_of_a_process_are_kept(tmp_path: Path) -> None:
    async with hosting("LastWords", log_dir=tmp_path) as host:
        await refused((await playing(host)).step("a"))
    kept = log_path(tmp_path, "tests.support.environments:LastWords").read_text()
    assert kept.count("[group_1 member 0, train 0] goodbye\n") == 1
