"""A loop of Tinker's SDK over RabbitMQ, of which each part is killed once: it goes on by itself, to the same weights.

Models that share a base are batched together, and which ones are is a matter of time: so the last bits may differ.
"""

import json
import re
import subprocess
import urllib.request
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import pytest
from tests.ecosystems.tinker.table import BASE, ROOT
from tests.support.deployment import Site
from tests.support.patience import PATIENCE_S
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import wait_until

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
PYTHON = str(ROOT / ".venv-tinker" / "bin" / "python")
LOOP = Path(__file__).with_name("loop.py")
N_STEPS = 3


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, doomed_rabbit: PrivateRabbit) -> Generator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), doomed_rabbit.url, None)
    try:
        start(site, "gateway", "gateway", "--port", str(site.port))
        start(site, "gpu", "gpu-worker", "--base-model", BASE, "--engine", "transformers")
        wait_until(
            lambda: offers(site),
            site.processes["gpu"],
            deadline_s=PATIENCE_S,
            log_path=site.log("gpu"),
        )
        yield site
    finally:
        site.stop()


def key_of(site: Site) -> str:
    return f"tml-{(site.home / 'api-key').read_text().strip()}"


def offers(site: Site) -> bool:
    """Whether the model can be trained and sampled from."""
    url = f"{site.url}/api/v1/get_server_capabilities"
    request = urllib.request.Request(url, headers={"X-API-Key": key_of(site)})
    with urllib.request.urlopen(request) as response:
        models = json.load(response)["supported_models"]
    return any(model["trainable"] and model["sampleable"] for model in models)


def start(site: Site, name: str, *arguments: str) -> None:
    site.start(name, *arguments)
    if name == "gateway":
        wait_until(
            site.is_listening,
            site.processes[name],
            deadline_s=PATIENCE_S,
            log_path=site.log(name),
        )


def restart(site: Site, name: str) -> None:
    site.processes[name].kill()
    site.processes[name].wait()
    start(site, name, *site.commands[name])


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
    return [float.fromhex(value) for value in re.findall(r"'(\S+)'", lines[-1])]


def test_each_part_may_be_killed_in_the_middle_of_a_loop(
    site: Site, doomed_rabbit: PrivateRabbit
) -> None:
    def broker() -> None:
        doomed_rabbit.kill()
        doomed_rabbit.start()

    undisturbed = looped(site)
    assert len(undisturbed) == 4
    same = pytest.approx(undisturbed, abs=1e-5)
    for what in ("gpu", "gateway"):
        assert looped(site, partial(restart, site, what)) == same
    assert looped(site, broker) == same
