"""Jobs of every kind that stand in their middle while a part is killed: their ends are those of undisturbed ones.

Fine-tuning ends with the same bits, an evaluation with the same rewards, and every prompt of a file is answered the
same. What becomes of training and of replays is asked in tests/chaos and in the tests of replays.
"""

import asyncio
import hashlib
import json
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.deployment import Site, connected
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit, running_rabbit
from tests.support.processes import wait_until

import warren
from warren.run_configs.configs import config_of_fine_tuning, config_of_inference
from warren_schemas.episode import Completed
from warren_schemas.events import RunState

pytestmark = [pytest.mark.storm, pytest.mark.thorough, pytest.mark.server, several_waits]

HELD = ("env-worker", "--env", "tests.support.held_environments:Held")
SUMS = [
    {"messages": [{"role": "user", "content": f"{n}+{n}="}, {"role": "assistant", "content": str(2 * n)}]}
    for n in range(10)
]  # fmt: skip
PROMPTS = [{"prompt": f"{n}+{n}=", "id": n} for n in range(400)]
N_EVALUATED = 24
N_STEPS = 60
"""Of fine-tuning: more than are made before somebody is killed."""


@dataclass(frozen=True)
class Ends:
    """What the three jobs came to."""

    weights: str
    evaluated: dict[tuple[int, int], tuple[float, str]]
    answered: dict[tuple[int, int], tuple[float, str]]


@pytest.fixture
def rabbit() -> Generator[PrivateRabbit]:
    with running_rabbit() as node:
        yield node


@pytest.fixture
def site(tmp_path: Path, rabbit: PrivateRabbit) -> Generator[Site]:
    site = Site(tmp_path, rabbit.url, None)
    try:
        yield site
    finally:
        site.stop()


@pytest.mark.parametrize("victim", ["gpu", "gateway", "env-1", "broker"])
async def test_the_ends_are_those_of_undisturbed_jobs(
    site: Site, rabbit: PrivateRabbit, tmp_path: Path, victim: str
) -> None:
    hold = tmp_path / "hold"
    await site.start_gateway()
    site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
    site.start("env-1", *HELD)
    async with connected(site) as client:
        await upload(client, tmp_path)
        calm = await ends([await client.train(config) for config in configs(hold)])
        hold.touch()
        jobs = [await client.train(config) for config in configs(hold)]
        await in_their_middle(jobs, site, hold)
        if victim == "broker":
            await asyncio.to_thread(rabbit.kill)
        else:
            await site.kill(victim)
        hold.unlink()
        if victim == "broker":
            await asyncio.to_thread(rabbit.start)
        else:
            await restarted(site, victim)
    async with connected(site) as client:
        disturbed = await ends([await client.run(job.id) for job in jobs])
    assert disturbed == calm
    assert len(calm.answered) == len(PROMPTS)
    assert len(calm.evaluated) == N_EVALUATED
    assert len(set(calm.evaluated.values())) > 1, "all said the same, so nothing is compared"


async def restarted(site: Site, victim: str) -> None:
    if victim == "gateway":
        await site.start_gateway()
    else:
        site.start_missing()


async def upload(client: warren.Client, folder: Path) -> None:
    for name, rows in (("sums", SUMS), ("asked", PROMPTS)):
        file = folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        await client.datasets.upload(file, name)


def configs(hold: Path) -> list[warren.TrainConfig]:
    fine_tuning = [f"sft.steps={N_STEPS}", "sft.episodes_per_step=4", "seed=3"]
    evaluation: dict[str, Any] = {
        "name": "held",
        "model": {"base": "warren/tiny"},
        "environments": [{"name": "held", "config": {"hold": str(hold)}}],
        "sampling": {"max_tokens": 2},
        "evaluation": {"episodes": N_EVALUATED, "temperature": 0.0},
        "limits": {"steps": 0},
    }
    return [
        config_of_fine_tuning("sums", "warren/tiny", fine_tuning),
        warren.TrainConfig.model_validate(evaluation),
        config_of_inference(
            "asked", len(PROMPTS), model="warren/tiny", changes=["sampling.max_tokens=4"]
        ),
    ]


async def in_their_middle(jobs: list[warren.Run], site: Site, hold: Path) -> None:
    fine_tuning, _, inference = jobs
    await asyncio.to_thread(
        wait_until, hold.with_suffix(".reached").exists, site.processes["gateway"], deadline_s=PATIENCE_S,
        log_path=site.log("gateway"),
    )  # fmt: skip
    async for _ in inference.trajectories(follow=True):
        break
    async for row in fine_tuning.metrics(follow=True):
        if row.step >= 2:
            break
    for job in jobs[:2]:
        assert (await job.refresh()).state is RunState.RUNNING


async def ends(jobs: list[warren.Run]) -> Ends:
    fine_tuning, evaluation, inference = jobs
    trained = await fine_tuning.result()
    await evaluation.result()
    await inference.result()
    return Ends(weights_of(trained), await played(evaluation), await played(inference))


def weights_of(result: warren.RunResult) -> str:
    """A digest of the exact bits."""
    assert result.policy_url is not None
    files = sorted(Path(urlsplit(result.policy_url).path).glob("*.safetensors"))
    assert files
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


async def played(run: warren.Run) -> dict[tuple[int, int], tuple[float, str]]:
    """By task and sample: the reward, and what was said. Each is in the record once."""
    found: dict[tuple[int, int], tuple[float, str]] = {}
    async for view in run.trajectories():
        spec, outcome = view.trajectory.spec, view.trajectory.outcome
        assert isinstance(outcome, Completed)
        assert (spec.task.index, spec.member) not in found
        said = str(view.trajectory.transcript.messages)
        found[spec.task.index, spec.member] = (outcome.reward, said)
    return found
