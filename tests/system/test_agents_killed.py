"""A run whose episodes are agents survives the death of every part in the middle, on RabbitMQ.

An agent's call waits while a sampler, the gateway or the broker is away. Agents whose env worker dies fail with
`not_replayable` and are tried again. Nothing is trained twice, and what a policy said is in the record once.
"""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
import yaml
from tests.support.deployment import Site, connected
from tests.support.patience import several_waits
from tests.support.private_rabbit import running_rabbit

from warren_schemas.episode import Completed
from warren_schemas.events import StepCompleted

pytestmark = [pytest.mark.storm, pytest.mark.server, several_waits]

EXAMPLE = Path(__file__).parents[2] / "examples" / "guess.yaml"
AGENT = ("env-worker", "--only", "--env", "tests.support.agents:GuessAgent")
N_STEPS = 12


def config() -> dict[str, object]:
    found = yaml.safe_load(EXAMPLE.read_text())
    found["environments"] = [{"name": "guess_agent"}]
    found["limits"] = {"steps": N_STEPS, "episode_s": 300}
    del found["sft"], found["evaluation"]
    return found


async def killed(site: Site, name: str) -> None:
    await site.kill(name)
    if name == "gateway":
        await site.start_gateway()
    else:
        site.start(name, *site.commands[name])


async def test_agents_survive_the_death_of_every_part(tmp_path: Path) -> None:
    with running_rabbit() as rabbit:
        site = Site(tmp_path, rabbit.url, None)
        try:
            await site.start_gateway()
            site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
            for name in ("env-1", "env-2"):
                site.start(name, *AGENT)
            async with connected(site) as client:
                run = await client.train(config())
                victims = {2: "env-1", 4: "gpu", 6: "gateway"}
                async for event in run.events():
                    body = event.body
                    if not isinstance(body, StepCompleted):
                        continue
                    if (victim := victims.pop(body.step, None)) is not None:
                        await killed(site, victim)
                    if body.step == 8:
                        rabbit.kill()
                        rabbit.spawn()
                        await asyncio.to_thread(rabbit.wait_until_ready)
                result = await run.result()
                trained = [view async for view in run.trajectories() if view.fate == "trained"]
        finally:
            site.stop()
    assert result.updates > 0
    once = Counter((v.trajectory.spec.group, v.trajectory.spec.member) for v in trained)
    assert set(once.values()) == {1}
    for view in trained:
        transcript = view.trajectory.transcript
        assert isinstance(view.trajectory.outcome, Completed)
        assert len(transcript.actions) == len(transcript.turns)
        assert not transcript.set_aside
