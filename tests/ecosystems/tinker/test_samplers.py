"""Samplers of Tinker's SDK over more updates than trainers keep, with a gateway and a GPU worker that are killed
meanwhile: those that stay do, and the one that moves on samples from what was saved for such ones.
"""

import json
import subprocess
from collections.abc import Generator
from pathlib import Path
from subprocess import PIPE

import pytest
from tests.ecosystems.tinker.parts import GATEWAY, GPU, key_of, parted, restart
from tests.ecosystems.tinker.table import BASE, ROOT
from tests.support.deployment import Site
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit

from warren_schemas.training import KEEP_POLICIES

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
PYTHON = str(ROOT / ".venv-tinker" / "bin" / "python")
SAMPLERS = Path(__file__).with_name("samplers.py")
KILLED = {"half": GATEWAY, "published": GPU}


@pytest.fixture
def site(tmp_path: Path, private_rabbit: PrivateRabbit) -> Generator[Site]:
    with parted(tmp_path, private_rabbit.url, BASE) as site:
        yield site


@several_waits
def test_snapshots_stay_and_inflight_samplers_move_on_over_many_updates(site: Site) -> None:
    told = logprobs_of(site, KEEP_POLICIES + 2)
    exact = 1e-3  # samplers and trainers may add in another order
    same = {
        name: pytest.approx(told[f"{name} trained"], abs=exact)
        for name in ("first", "unused", "moved", "newest")
    }
    assert told["first"] == told["moving"] == same["first"]
    assert told["first later"] == same["first"]
    assert told["unused later"] == same["unused"]
    assert told["newest"] == same["newest"]
    assert told["moved"] == told["moved later"] == told["moved no further"] == same["moved"]
    values = [told[f"{name} trained"] for name in same]
    assert all(a != pytest.approx(b, abs=4 * exact) for a in values for b in values if a is not b)


def logprobs_of(site: Site, n_updates: int) -> dict[str, list[float]]:
    """As the program tells them, in whose middle parts of the deployment are killed."""
    command = [PYTHON, str(SAMPLERS), site.url, key_of(site), BASE, str(n_updates)]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as program:
        assert program.stdin is not None and program.stdout is not None
        line = ""
        for line in program.stdout:
            if (killed := KILLED.get(line.strip())) is not None:
                restart(site, killed)
                program.stdin.write("go on\n")
                program.stdin.flush()
        assert program.wait(PATIENCE_S) == 0
    return json.loads(line)
