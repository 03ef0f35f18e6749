"""Actions of each of Gymnasium's spaces, said in words to environments that stand beside its own."""

import os
import shutil
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.gymnasium.test_gymnasium import CLASS, ROOT, episode, last_text, shown
from tests.support.hosting import hosting

from warren_env_worker.foreign import virtual_environments
from warren_env_worker.host.host import Host
from warren_env_worker.host.protocol import Refused

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
PACKAGES = next((ROOT / ".venv-gymnasium" / "lib").glob("python*/site-packages"), Path())
REGISTERED = Path(__file__).parent / "told_actions.py"


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A virtual environment that has all of `.venv-gymnasium`, and environments that its Python registers."""
    os.environ["WARREN_HOME"] = str(tmp_path_factory.mktemp("home"))
    folder = virtual_environments.folder("gymnasium")
    python = ROOT / ".venv-gymnasium" / "bin" / "python"
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (packages / "beside.pth").write_text(f"{PACKAGES.resolve()}\nimport {REGISTERED.stem}\n")
    shutil.copy(REGISTERED, packages)
    virtual_environments.note_installed("gymnasium")


@pytest.fixture
async def host() -> AsyncGenerator[Host]:
    async with hosting(CLASS) as host:
        yield host


def of(space: str, **config: Any) -> dict[str, Any]:
    return {"env": "ToldActions-v0", "arguments": {"space": space}, **config}


@pytest.mark.shows("Gymnasium", "several turns")
async def test_an_action_of_each_space_reaches_the_environment(host: Host) -> None:
    for space, told, said, reached in (
        ("discrete", "Actions: 0, 1, 2.", "2", "7"),
        ("multi_discrete", "2 whole numbers, separated by commas: from 0 to 1, from 1 to 3.", "1, 3", "[1, 3]"),
        ("multi_binary", "4 whole numbers, separated by commas, each from 0 to 1.", "[[1, 0], [0, 1]]", "[[1, 0], [0, 1]]"),
        ("box", "2 numbers, separated by commas: from -0.1 to 0.7, to 0.7.", "-0.1 0.5", "[-0.10000000149011612, 0.5]"),
        ("pixels", "2 whole numbers, separated by commas, each from 0 to 255.", "0 255", "[0, 255]"),
        ("text", "a text of 1 to 4 characters, of these:  ab", "a b", "a b"),
    ):  # fmt: skip
        first, wrong, right = await shown(
            episode(host, **of(space)), "<action>none of it</action>", f"<action>{said}</action>"
        )
        assert told in first.messages[0][1]
        assert last_text(wrong).startswith(("There is no such action.", "That is no action."))
        assert last_text(right) == f"{reached} True"
        assert right.metrics == {"steps": 1.0, "invalid_actions": 1.0}


async def test_what_can_not_be_said_or_named_is_refused(host: Host) -> None:
    admissible = {"template": "{observation} {admissible}"}
    for config, reason in (
        (of("tuple"), "only a choice, up to 1000 numbers and a text can be said"),
        (of("text", actions=["a"]), "which actions can't name"),
        (of("box", text=admissible), "told where an action is one of some"),
    ):
        answer = await episode(host, **config).reset()
        assert isinstance(answer, Refused)
        assert reason in answer.reason
