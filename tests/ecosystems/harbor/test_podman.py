"""A task of Harbor in a container of Podman, which Harbor makes by podman-compose."""

import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ecosystems.harbor.serving import CLASS, episode, installed, shell, text
from tests.ecosystems.harbor.task_folders import write_task
from tests.support.container_images import IMAGE, SHELL, podman_with_image
from tests.support.hosting import hosting
from tests.support.patience import several_waits

from warren_env_worker.host.protocol import Observed

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server, several_waits]
DOCKERFILE = f"FROM {IMAGE}\nWORKDIR /app\nCOPY numbers.txt ./\nENV UNIT=apples\n"
COMPOSE = """\
services:
  main:
    network_mode: none
    ulimits: {nproc: 4096, nofile: 1024}
"""
"""Podman would raise these limits otherwise, which not every machine lets it."""


def is_composable() -> bool:
    """Harbor asks for an option that Debian 12's podman-compose lacks."""
    compose = shutil.which("podman-compose")
    if compose is None:
        return False
    told = subprocess.run([compose, "--help"], capture_output=True, text=True, check=False)
    return "--in-pod" in told.stdout


@pytest.fixture
def podman(tmp_path: Path) -> Generator[None]:
    if not is_composable():
        pytest.skip("no podman-compose that knows --in-pod is installed")
    with podman_with_image(tmp_path, SHELL):
        yield


@pytest.mark.usefixtures("podman")
async def test_a_task_is_solved_in_a_container_of_podman(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "tasks", dockerfile=DOCKERFILE)
    (folder / "sum" / "environment" / "docker-compose.yaml").write_text(COMPOSE)
    async with hosting(CLASS) as host:
        player = episode(host, folder, sandbox="podman")
        begun = await player.reset()
        assert text(begun) == "Write the sum of numbers.txt into answer.txt."
        asked = "pwd; cat numbers.txt; echo $UNIT; ls /sys/class/net"
        shown = text(await player.step(shell(asked)))
        assert shown.split() == ["/app", "3", "4", "apples", "lo"]
        await player.step(shell("echo 7 > answer.txt"))
        last = await player.step("Done.")
    assert isinstance(last, Observed), last
    assert (last.is_over, last.reward) == (True, 1.0)
