"""A run whose episodes are played by a program of the user's own, which dies in the middle, as the gateway does.

What the program had taken is tried again by the next one; nothing is trained twice, and what an agent raises is
in the record as the failure of its episode.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.support.deployment import Site, connected
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import end, spawn

from warren_schemas.episode import Failed
from warren_schemas.events import StepCompleted

pytestmark = [pytest.mark.storm, pytest.mark.thorough, pytest.mark.server, several_waits]

N_STEPS = 9
CONFIG = {
    "name": "own loop",
    "model": {"base": "warren/tiny", "update": {"kind": "full"}},
    "environments": [{"name": "parity", "workers": "own", "max_failed_members": 4}],
    "sampling": {"max_tokens": 2},
    "limits": {"steps": N_STEPS, "episode_s": 60},
}


def play(site: Site, name: str, run: str) -> "subprocess.Popen[bytes]":
    variables = os.environ | {"WARREN_API_KEY": (site.home / "api-key").read_text().strip()}
    return spawn(
        [sys.executable, "-m", "tests.support.own_loop", site.url, run],
        log_path=site.log(name),
        environment=variables,
    )


async def test_a_loop_of_one_s_own_survives_its_death_and_the_gateway_s(
    tmp_path: Path, private_rabbit: PrivateRabbit
) -> None:
    site = Site(tmp_path, private_rabbit.url, None)
    try:
        await site.start_gateway()
        site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
        async with connected(site) as client:
            run = await client.train(CONFIG)
            player = play(site, "first", run.id)
            steps: list[int] = []
            async for event in run.events():
                if not isinstance(event.body, StepCompleted):
                    continue
                steps.append(event.body.step)
                if event.body.step == 2:
                    end(player, signal.SIGKILL, grace_s=0.0)
                    player = play(site, "second", run.id)
                if event.body.step == 5:
                    await site.kill("gateway")
                    await site.start_gateway()
            result = await run.result()
            views = [view async for view in run.trajectories()]
            async with asyncio.timeout(PATIENCE_S):
                status = await asyncio.to_thread(player.wait)
    finally:
        site.stop()
    assert steps == list(range(1, N_STEPS + 1))
    assert result.updates > 0
    assert status == 0, site.log("second").read_text()[-3000:]  # it ends with its run
    trained = Counter(
        (v.trajectory.spec.group, v.trajectory.spec.member) for v in views if v.fate == "trained"
    )
    assert set(trained.values()) == {1}
    failures = [v.trajectory.outcome for v in views if isinstance(v.trajectory.outcome, Failed)]
    assert any("ValueError: this one gives up" in failure.reason for failure in failures)
