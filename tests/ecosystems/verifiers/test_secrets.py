"""Secrets of a run in the environment variables of a taskset: of its own episodes, and of no other process or log."""

from pathlib import Path

import pytest
from tests.ecosystems.given_secrets import (
    GIVEN,
    KEY,
    NAME,
    SECRET,
    asked,
    begun,
    require_refused,
)
from tests.ecosystems.verifiers.test_verifiers import CLASSES, installed, of_both
from tests.support.hosting import hosting

from warren_env_worker.output.log import log_path

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
KEYED = {"verifiers": {"taskset": "keyed"}, "verifiers_v0": {"taskset": "keyed_v0"}}


@of_both("secrets")
async def test_a_secret_is_a_variable_of_the_episodes_of_its_run(
    package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SECRET, KEY)
    async with hosting(CLASSES[package], log_dir=tmp_path) as host:
        assert asked(await begun(host, KEYED[package], (NAME,), variables=GIVEN)) == KEY
        assert asked(await begun(host, KEYED[package])) == "nothing"
        await require_refused(host, KEYED[package], "WARREN_EPISODE_KEY")
    logged = log_path(tmp_path, CLASSES[package]).read_text()
    assert f"the key is <{NAME}>" in logged
    assert KEY not in logged
