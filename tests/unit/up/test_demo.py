"""The demo's last line, and the folder of a site."""

import json
import time
from pathlib import Path

import pytest

from warren.errors import ConfigurationError
from warren_schemas.http import RunResult
from warren_up.demo import figures, free_port
from warren_up.failures import told
from warren_up.folder import claimed, make
from warren_up.site import Site


def test_the_last_line_holds_the_figures() -> None:
    result = RunResult(reward_before=0.2, reward_after=0.9, episodes=5, updates=3, tokens=7)
    line = figures(result, started_s=time.time() - 2.0)
    assert "\n" not in line
    found = json.loads(line)
    assert set(found) == {
        "reward_before", "reward_after", "episodes", "updates", "tokens", "wall_s", "cpu_s",
        "max_staleness_seen",
    }  # fmt: skip
    assert (found["reward_after"], found["updates"]) == (0.9, 3)
    assert found["wall_s"] >= 2.0
    assert found["cpu_s"] > 0.0


def test_a_folder_belongs_to_one_site_at_a_time(tmp_path: Path) -> None:
    with (
        claimed(tmp_path),
        pytest.raises(ConfigurationError, match="Another `warren up`"),
        claimed(tmp_path),
    ):
        pass
    with claimed(tmp_path):  # the first one has let go
        pass


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="--home"):
        make(tmp_path / "file" / "home")


def test_everything_of_a_site_lies_in_its_home(tmp_path: Path) -> None:
    site = Site(tmp_path, free_port())
    gateway = site.gateway()
    assert gateway.home == tmp_path
    assert str(tmp_path) in gateway.store_url
    assert site.log_file.is_relative_to(tmp_path)


def test_a_part_that_stops_is_told_by_its_first_cause() -> None:
    group = ExceptionGroup("parts", [ExceptionGroup("more", [OSError(28, "No space left")])])
    error = told("gateway", group, Path("/home/logs/warren.log"))
    assert "gateway has stopped" in error.message
    assert "No space left" in error.message
    assert "/home/logs/warren.log" in (error.hint or "")
