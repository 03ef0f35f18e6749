"""Loops of Tinker's SDK over RabbitMQ: each part is killed once, or one of two gateways for good. They go on by
themselves, to the same weights.

Models that share a base are batched together, and which ones are is a matter of time: so the last bits may differ.
"""

import asyncio
import os
import re
import subprocess
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest
from tests.ecosystems.tinker.parts import GATEWAY, GPU, key_of, parted, restart
from tests.ecosystems.tinker.table import BASE, ROOT
from tests.support.deployment import Site
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import start_program
from tests.support.replicas import SECOND, Replicas, first_of_two

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
PYTHON = str(ROOT / ".venv-tinker" / "bin" / "python")
LOOP = Path(__file__).with_name("loop.py")
N_STEPS = 3


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, doomed_rabbit: PrivateRabbit) -> Generator[Site]:
    with parted(tmp_path_factory.mktemp("site"), doomed_rabbit.url, BASE) as site:
        yield site


def looped(site: Site, breaking: Callable[[], None] = lambda: None) -> list[float]:
    """The logprobs that tell the weights at the end of a loop, in whose middle something is broken."""
    command = [PYTHON, str(LOOP), site.url, key_of(site), BASE, str(N_STEPS)]
    lines = list[str]()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as loop:
        for line in loop.stdout or ():
            lines.append(line)
            if line.startswith("step 0"):
                breaking()
        assert loop.wait(PATIENCE_S) == 0
    return weights(lines[-1])


def weights(line: str) -> list[float]:
    """The logprobs that tell them."""
    return [float.fromhex(value) for value in re.findall(r"'(\S+)'", line)]


@several_waits
def test_each_part_may_be_killed_in_the_middle_of_a_loop(
    site: Site, doomed_rabbit: PrivateRabbit
) -> None:
    def broker() -> None:
        doomed_rabbit.kill()
        doomed_rabbit.start()

    undisturbed = looped(site)
    assert len(undisturbed) == 4
    same = pytest.approx(undisturbed, abs=1e-5)
    for what in (GPU, GATEWAY):
        assert looped(site, partial(restart, site, what)) == same
    assert looped(site, broker) == same


async def test_a_loop_goes_on_at_the_other_gateway(
    tmp_path: Path, private_rabbit: PrivateRabbit, private_postgres: str
) -> None:
    async with first_of_two(tmp_path, private_rabbit.url, private_postgres, BASE) as replicas:
        undisturbed = await looped_at(replicas)
        await replicas.start(SECOND)
        again = await looped_at(replicas, loses_first=True)
    assert len(undisturbed) == 4
    assert again == pytest.approx(undisturbed, abs=1e-5)


async def looped_at(replicas: Replicas, *, loses_first: bool = False) -> list[float]:
    """The weights at the end of a loop, in whose middle the gateway that it talks to may be lost."""
    command = [PYTHON, str(LOOP), replicas.url, replicas.key, BASE, str(N_STEPS)]
    loop = await start_program(*command, environment=os.environ, stderr=None)
    assert loop.stdout is not None
    line = ""
    async with asyncio.timeout(PATIENCE_S):
        async for told in loop.stdout:
            line = told.decode()
            if loses_first and line.startswith("step 0"):
                await replicas.kill_first()
        assert await loop.wait() == 0
    return weights(line)
