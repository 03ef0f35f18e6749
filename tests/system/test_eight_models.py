"""Eight models of eight replays train at once on one worker, and learn what each learns alone."""

from pathlib import Path

import pytest
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from torch import Tensor

import warren
from warren_gpu_worker.weights import fetch_policy
from warren_schemas.config import TrainConfig
from warren_schemas.ids import RunId
from warren_up.recipe import guess_config

pytestmark = [pytest.mark.storm, pytest.mark.thorough, several_waits]

N_MODELS = 8
N_STEPS = 2
N_SFT_STEPS = 20
"""Enough for episodes that are not all alike, so that there is something to learn."""


def recorded_config() -> TrainConfig:
    """The demo's recipe, in small, and without anything that a policy would have to play."""
    config = guess_config(steps=N_STEPS).model_dump()
    config["sft"] |= {"steps": N_SFT_STEPS}
    config["algorithm"] |= {"group_size": 8, "groups_per_step": 2, "max_staleness": 1}
    config["limits"] |= {"stop_at_reward": None}
    return TrainConfig.model_validate(config | {"evaluation": None})


def lora_config(seed: int, deterministic: bool) -> dict[str, object]:
    """Steps follow the gradient: AdamW with a small epsilon would make whole steps of rounding."""
    config = recorded_config().model_dump(exclude={"source"})
    config["seed"] = seed
    config["model"] |= {"update": {"kind": "lora", "rank": 4}, "deterministic": deterministic}
    config["sft"] |= {"steps": 2, "learning_rate": 0.1}
    config["optimizer"] |= {"learning_rate": 0.1, "eps": 1.0, "warmup_steps": 0}
    return config


async def replayed(
    client: warren.Client, recorded: RunId, deterministic: bool
) -> list[dict[str, Tensor]]:
    """What each of the models learned; deterministic ones share no batch with others."""
    replays = [
        await client.replay(recorded, lora_config(seed, deterministic)) for seed in range(N_MODELS)
    ]
    results = [await replay.result() for replay in replays]
    return [fetch_policy(result.policy_url or "").tensors for result in results]


async def test_eight_models_at_once_learn_what_each_learns_alone(tmp_path: Path) -> None:
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))
    async with site.running(site.gpu_worker, site.env_worker) as client:
        recorded = await client.train(recorded_config())
        await recorded.result()
    async with site.running(site.trainer) as client:
        at_once = await replayed(client, recorded.id, deterministic=False)
        alone = await replayed(client, recorded.id, deterministic=True)

    for together, apart in zip(at_once, alone, strict=True):
        assert together.keys() == apart.keys()
        assert max(float(t.abs().max()) for n, t in together.items() if "lora_B" in n) > 1e-4
        assert max(float((together[n] - apart[n]).abs().max()) for n in together) <= 1e-6
