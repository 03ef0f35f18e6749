"""Secrets of a run in the environment variables of a sample: of its own episodes, and of no other process or log."""

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
from tests.ecosystems.inspect_ai.serving import CLASS, TASKS, installed
from tests.support.hosting import hosting

from warren_env_worker.output.log import log_path

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
KEYED = {"task": f"{TASKS}@keyed"}


@pytest.mark.shows("Inspect", "secrets")
async def test_a_secret_is_a_variable_of_the_episodes_of_its_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(SECRET, KEY)
    async with hosting(CLASS, log_dir=tmp_path) as host:
        assert asked(await begun(host, KEYED, (NAME,), variables=GIVEN)) == KEY
        assert asked(await begun(host, KEYED)) == "nothing"
        await require_refused(host, KEYED, "INSPECT_CACHE_DIR")
    logged = log_path(tmp_path, CLASS).read_text()
    assert f"the key is <{NAME}>" in logged
    assert KEY not in logged
