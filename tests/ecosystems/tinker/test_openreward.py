"""A loop of the shape of the example *Tinker RL training with OpenReward*: base URL and key are all that it is told of
Warren. The server of the Open Reward Standard is ours, and the client is the example's."""

import json
import os
import subprocess
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.ors_server.serving import OrsServer, ors_server
from tests.ecosystems.tinker.doors import build_calling
from tests.ecosystems.tinker.table import BASE, ROOT, Up, deployed
from tests.support.base_models import tiny_models
from tests.support.patience import PATIENCE_S, several_waits

__all__ = ["tiny_models"]

pytestmark = [pytest.mark.ecosystem_all, several_waits]
TINKER, OPENREWARD = (ROOT / f".venv-{name}" for name in ("tinker", "openreward"))
LOOP = Path(__file__).with_name("openreward_loop.py")
DOORS = "tests.ecosystems.tinker.doors:Doors"
KEY = "of-the-environments"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory, tiny_models: dict[str, str]) -> Generator[Up]:
    model = tmp_path_factory.mktemp("model") / "calling"
    build_calling(Path(tiny_models[BASE]), model)
    with deployed(tmp_path_factory.mktemp("up"), str(model)) as up:
        yield up


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[OrsServer]:
    folder = tmp_path_factory.mktemp("ors")
    with ors_server(folder, "--api-key", KEY, f"--env={DOORS}") as server:
        yield server


def looped(up: Up, server: OrsServer, *arguments: str) -> Sequence[Mapping[str, Any]]:
    """What the loop says of each step, and at its end."""
    environments = server.url.rstrip("/")  # the client adds one of its own to some paths
    variables = {
        "TINKER_BASE_URL": up.url,
        "TINKER_API_KEY": up.key,
        "OPENREWARD_SESSION_URL": environments,
        "OPENREWARD_API_URL": environments,
        "OPENREWARD_API_KEY": KEY,
        "OPENREWARD_DISABLE_UPDATE_CHECK": "1",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(next((OPENREWARD / "lib").glob("python*/site-packages"))),
    }
    command = [str(TINKER / "bin" / "python"), str(LOOP), BASE, up.model, "me/doors", *arguments]
    done = subprocess.run(
        command,
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_loop_trains_on_calls_of_tools_and_goes_on_from_its_checkpoint(
    up: Up, server: OrsServer
) -> None:
    *steps, end = looped(up, server, "3")
    assert [row["step"] for row in steps] == [0, 1, 2]
    assert all(row["n_data"] for row in steps)
    assert len({reward for row in steps for reward in row["rewards"]}) > 2
    *more, end_of_more = looped(up, server, "1", end["saved"])
    assert [row["n_data"] > 0 for row in more] == [True]
    assert end_of_more["saved"] != end["saved"]
