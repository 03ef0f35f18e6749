"""An evaluation is a job of its own: of a base model without a trainer, and of a checkpoint."""

import asyncio
from collections import defaultdict
from pathlib import Path
from statistics import fmean

import pytest
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits

import warren
from warren_schemas.config import ResumeFrom
from warren_schemas.episode import Completed
from warren_schemas.events import RunOutcome
from warren_up.recipe import guess_config


async def rewards_by_task(run: warren.Run) -> dict[int, list[float]]:
    """By hand, from what was recorded."""
    rewards: dict[int, list[float]] = defaultdict(list)
    async for view in run.trajectories():
        outcome = view.trajectory.outcome
        assert view.fate == "evaluated"
        assert isinstance(outcome, Completed)
        rewards[view.trajectory.spec.task.index].append(outcome.reward)
    return dict(rewards)


@several_waits
async def test_a_base_model_needs_no_trainer(tmp_path: Path) -> None:
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))

    config = guess_config().for_evaluation().model_dump()
    config["evaluation"] |= {"episodes": 24, "samples": 4, "temperature": 1.0}
    async with site.running(site.sampler, site.env_worker) as client:
        run = await client.train(config)
        result = await run.result()
        rewards = await rewards_by_task(run)
    assert result.outcome is RunOutcome.EVALUATED
    assert sorted(rewards) == list(range(6))
    assert {len(of_task) for of_task in rewards.values()} == {4}
    by_hand = fmean(reward for of_task in rewards.values() for reward in of_task)
    assert result.reward_after == pytest.approx(by_hand)
    assert (result.updates, result.policy_url) == (0, None)


@pytest.mark.storm
@pytest.mark.thorough
@several_waits
async def test_parity_row_34_a_checkpoint_is_evaluated_as_it_was_trained(tmp_path: Path) -> None:
    """The tasks, the seed and the weights are those of the run's own last evaluation, and so is its mean."""
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))
    changed = guess_config(steps=3).model_dump()
    changed["sft"] |= {"steps": 250}
    changed["evaluation"] |= {"episodes": 32}
    trained = warren.TrainConfig.model_validate(changed)
    async with site.running(site.gpu_worker, site.env_worker) as client:
        run = await client.train(trained)
        of_run = await run.result()
        of_base, of_result = await asyncio.gather(
            evaluated(client, trained.for_evaluation()),
            evaluated(client, trained.for_evaluation(ResumeFrom(run=run.id))),
        )
    assert of_run.reward_after  # or a policy that knows nothing would do as well
    assert of_result.reward_after == pytest.approx(of_run.reward_after)
    assert of_result.version == of_run.version
    assert of_base.version == 0


async def evaluated(client: warren.Client, config: warren.TrainConfig) -> warren.RunResult:
    return await (await client.train(config)).result()
