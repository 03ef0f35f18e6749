"""Evaluations through real samplers and a real trainer, while training goes on."""

from pathlib import Path

import pytest
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits

from warren_schemas.config import TrainConfig
from warren_schemas.events import EvaluationCompleted, Phase, StepCompleted, WarningRaised
from warren_up.recipe import guess_config

N_STEPS = 7
PHASES = (
    "episode/reset_s", "episode/sampler_wait_s", "episode/sampling_s", "episode/step_s",
    "time/trainer_wait_s", "time/training_s", "time/publish_s",
)  # fmt: skip
"""Where the time goes, measured by env workers, samplers, the trainer and the gateway."""


def evaluated_often() -> TrainConfig:
    """Each evaluation has more episodes than two steps together, so the next ones wait for it."""
    config = guess_config(steps=N_STEPS).model_dump()
    config["sft"] |= {"steps": 60}
    config["algorithm"] |= {"group_size": 8, "groups_per_step": 2, "max_staleness": 1}
    config["limits"] |= {"stop_at_reward": None}
    config["evaluation"] |= {"episodes": 64, "before": False, "every_steps": 1}
    return TrainConfig.model_validate(config)


@pytest.mark.storm
@pytest.mark.thorough
@several_waits
async def test_parity_row_14_each_one_happens_once_with_the_policy_of_its_step(
    tmp_path: Path,
) -> None:
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))
    async with site.running(site.gpu_worker, site.env_worker) as client:
        run = await client.train(evaluated_often())
        await run.result()
        bodies = [event.body async for event in run.events()]
        rows = [row async for row in run.metrics(["evaluation/*"])]
        played = [view async for view in run.trajectories()]
        steps = [row.metrics async for row in run.metrics(list(PHASES))]

    led_to = {
        b.step: b.version
        for b in bodies
        if isinstance(b, StepCompleted) and b.phase is Phase.TRAINING
    }
    during = [b for b in bodies if isinstance(b, EvaluationCompleted) and b.when == "during"]
    assert [(b.step, b.version) for b in during] == [(s, led_to[s]) for s in range(1, N_STEPS)]
    assert {b.due_version for b in during} == {None}
    assert not [b for b in bodies if isinstance(b, WarningRaised) and b.alarm]
    assert [row.metrics["evaluation/version"] for row in rows if row.when == "during"] == [
        b.version for b in during
    ]
    of_versions = {
        (view.step, int(version))
        for view in played
        if view.fate == "evaluated" and view.step != N_STEPS
        for version in view.trajectory.transcript.tokens.versions_T
        if version >= 0
    }
    assert of_versions <= {(b.step, b.version) for b in during}
    assert {version for _, version in of_versions} == {b.version for b in during}
    assert {tag for tag in PHASES for step in steps if step.get(tag, 0.0) > 0.0} == set(PHASES)
