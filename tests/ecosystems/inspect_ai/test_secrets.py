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
from tests.ecosystems.inspect_ai.serving import CLASS, TASKS, call, ended, installed, text
from tests.support.hosting import Player, hosting
from tests.support.interacting import spec

from warren_env_worker.host.protocol import Observed, Refused
from warren_env_worker.output.log import log_path
from warren_schemas.episode import FailureKind

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


@pytest.mark.parametrize("of_each_sample", [False, True])
async def test_secrets_are_refused_where_commands_would_inherit_them(
    monkeypatch: pytest.MonkeyPatch, of_each_sample: bool
) -> None:
    """Inspect's sandbox `local` runs the policy's commands with the variables of the episode's process."""
    monkeypatch.setenv(SECRET, KEY)
    arguments = {"of_each_sample": of_each_sample}
    of = {"task": f"{TASKS}@beside_the_process", "arguments": arguments}
    async with hosting(CLASS) as host:
        refused = await begun(host, of, (NAME,), variables=GIVEN)
        assert isinstance(refused, Refused), refused
        assert refused.kind is FailureKind.ENVIRONMENT_CONFIG
        assert refused.reason.startswith("variables: the task's sandbox `local` would show them")
        assert isinstance(await begun(host, of, (NAME,)), Observed)
        boxed = spec(
            environment_config={**of, "variables": GIVEN, "sandbox": "box"}, secrets=(NAME,)
        )
        player = Player(host, boxed)
        await player.reset()
        found = text(await player.step(call("bash", command="env; cat /proc/[0-9]*/environ")))
        assert "PATH=" in found
        assert KEY not in found


async def test_a_secret_is_taken_out_of_a_reason_before_that_is_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SECRET, KEY)
    config = {"task": f"{TASKS}@kaput", "arguments": {"how": "tells"}, "variables": GIVEN}
    async with hosting(CLASS) as host:
        failed = await ended(Player(host, spec(environment_config=config, secrets=(NAME,))), "7")
    assert isinstance(failed, Refused), failed
    assert f"x<{NAME}>" in failed.reason
