"""A hostile tenant against a deployment of real processes on RabbitMQ.

Another tenant's work goes on beside the attacks, and its latency is shown. No process shows a
credential in `/proc`: neither a program, nor a child of one.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from statistics import median

import pytest
from tests.support.deployment import Site, connected
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import children
from tests.trust.attack import KEY, SECRET
from tests.trust.scene import Scene, attack, open_scene, open_services, victims_config
from tests.trust.table import HOSTED

pytestmark = [several_waits, pytest.mark.storm, pytest.mark.thorough]

PASSWORD = "of-the-broker-0123456789"
IN_URL = "of-the-checkpoints-0123456789"
N_ALONE = 3


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site]:
    (tmp_path / "rabbit").mkdir()
    rabbit = PrivateRabbit(tmp_path / "rabbit", PASSWORD)
    site = Site(tmp_path / "home", rabbit.url, None)
    site.home.mkdir()
    rabbit.spawn()
    try:
        await asyncio.to_thread(rabbit.wait_until_ready)
        yield site
    finally:
        await asyncio.to_thread(site.stop)
        rabbit.close()


async def test_attacks_by_every_field_take_nothing_from_the_other_tenant(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setenv("WARREN_CHECKPOINT_URL", f"file://{tmp_path}/{IN_URL}")
    async with open_services(tmp_path) as services:
        (tmp_path / "policy.yaml").write_text(json.dumps(services.policy))
        await site.start_gateway()
        site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
        site.start(
            "env",
            "env-worker",
            *(part for environment in HOSTED for part in ("--env", environment)),
            *("--operator-policy", str(tmp_path / "policy.yaml")),
        )
        async with (
            connected(site) as victim,
            open_scene(
                victim,
                services,
                url=site.url,
                home=site.home,
                pids=lambda: pids_of(site),
                hidden=(SECRET, PASSWORD, IN_URL),
            ) as scene,
        ):
            alone_s = [await whole_run_s(scene) for _ in range(N_ALONE)]
            beside_s: list[float] = []
            attacking = asyncio.create_task(attack(scene), name="attack")
            while not attacking.done():
                beside_s.append(await whole_run_s(scene))
            await attacking
    with capsys.disabled():
        print(
            f"\nruns of the other tenant: {median(alone_s):.2f} s alone, {median(beside_s):.2f} s"
            f" beside the attacks (medians of {N_ALONE} and {len(beside_s)}; longest"
            f" {max(beside_s):.2f} s)"
        )


async def whole_run_s(scene: Scene) -> float:
    """How long one step of the victim's takes, from its submission: episodes, his judge, the trainer."""
    began_s = time.monotonic()
    run = await scene.victim.train(victims_config(scene.services.judge_url, steps=1))
    await run.result()
    return time.monotonic() - began_s


def pids_of(site: Site) -> list[int]:
    """Of all programs, and of their children at any depth."""
    found = [process.pid for process in site.processes.values()]
    for pid in found:
        found += children(pid)
    assert len(found) >= 6, "gateway, GPU worker with its two children, env worker with some"
    return found
