"""`warren ors-server` serves an environment of a foreign package as if it were hosted directly."""

from pathlib import Path

import pytest
from tests.ecosystems.gymnasium.test_gymnasium import CLASS, LAKE, TO_THE_GOAL, episode, shown
from tests.ecosystems.installing import install
from tests.ecosystems.ors_server.serving import ROOT, client_program, ors_server
from tests.support.hosting import hosting

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARREN_HOME", str(tmp_path / "home"))  # and no longer
    install("gymnasium", tmp_path / "home")


@pytest.mark.shows("ORS server", "tasks", "tools", "several turns")
async def test_an_environment_of_gymnasium(tmp_path: Path) -> None:
    async with hosting(CLASS) as host:
        direct = await shown(episode(host, **LAKE), *TO_THE_GOAL)
    lake = {"config": LAKE, "splits": ["train"], "n_tasks": 3}
    with ors_server(tmp_path, gymnasium=lake) as server:
        seen = client_program(ROOT / ".venv-ors/bin/python", "client_gymnasium.py", server.url)
    assert seen == {
        "splits": ["train"],
        "n": 3,
        "tools": ["act"],
        "shown": [one.messages[-1][1] for one in direct if one.messages],
        "rewards": [one.reward for one in direct[1:]],
        "is_over": [one.is_over for one in direct[1:]],
    }
    assert (seen["rewards"][-1], seen["is_over"][-1]) == (1.0, True)
