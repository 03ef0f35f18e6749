"""Secrets of a run in the environment variables of a trial: its tests get them, and the policy finds them nowhere."""

from pathlib import Path

import pytest
from tests.ecosystems.given_secrets import (
    GIVEN,
    KEY,
    NAME,
    SECRET,
    VARIABLE,
    require_refused,
)
from tests.ecosystems.harbor.serving import CLASS, installed, shell, text
from tests.ecosystems.harbor.task_folders import DOCKERFILE, write_task
from tests.support.hosting import Player, hosting
from tests.support.interacting import spec

from warren_env_worker.host.protocol import Observed, Refused
from warren_env_worker.output.log import log_path

__all__ = ["installed"]
pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
NEEDS_THE_KEY = f"""\
#!/bin/bash
if [ "${VARIABLE}" = {KEY} ]; then echo 1 > /logs/verifier/reward.txt; else echo 0 > /logs/verifier/reward.txt; fi
"""
FIND = "cat /proc/[0-9]*/environ | xargs -0 -n1; env"


@pytest.mark.shows("Harbor", "secrets")
async def test_a_secret_is_a_variable_of_the_tests_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET, KEY)
    more = f'[verifier.env]\n{VARIABLE} = "${{{VARIABLE}}}"'
    of = {"path": str(write_task(tmp_path / "tasks", tests=NEEDS_THE_KEY, more=more))}
    given = {**of, "variables": GIVEN}
    async with hosting(CLASS, log_dir=tmp_path) as host:
        player = Player(host, spec(environment_config=given, secrets=(NAME,)))
        await player.reset()
        found = text(await player.step(shell(FIND)))
        assert "UNIT=apples" in found
        assert KEY not in found
        assert "OPENAI" not in found
        ended = await player.step("Done.")
        assert isinstance(ended, Observed), ended
        assert ended.reward == 1.0
        await require_refused(host, of, "OPENAI_API_KEY")
    assert KEY not in log_path(tmp_path, CLASS).read_text()


TELLS = f'RUN echo "${VARIABLE}$(printf %195s | tr " " x)" >&2; false\n'
"""Says the key, and 195 letters after it."""


async def test_a_secret_is_taken_out_of_a_reason_before_that_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what an agent raises, and of what a command of a Dockerfile says."""
    monkeypatch.setenv(SECRET, KEY)
    more = f'env = {{ {VARIABLE} = "${{{VARIABLE}}}" }}'
    built = write_task(tmp_path / "built", dockerfile=DOCKERFILE + TELLS, more=more)
    made = write_task(tmp_path / "made")
    async with hosting(CLASS) as host:
        for folder, agent, place in (
            (built, "shell", f"<{NAME}>x"),
            (made, "telling:Telling", "x<"),
        ):
            config = {"path": str(folder), "agent": agent, "variables": GIVEN}
            failed = await Player(host, spec(environment_config=config, secrets=(NAME,))).reset()
            assert isinstance(failed, Refused), failed
            assert place in failed.reason
            assert not [n for n in range(len(KEY) - 4) if KEY[n : n + 5] in failed.reason]
