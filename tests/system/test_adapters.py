"""Adapters that users bring: through a gateway that is killed meanwhile, and all the way to samplers and trainers."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest
from tests.support.adapters import half, write_adapter
from tests.support.deployment import Site, connected
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

import warren
from warren_schemas.events import RunOutcome
from warren_up.recipe import guess_config

pytestmark = several_waits

RANK = 4
WIDTH = 1_000_000
"""Of matrices that no model has: 32 MB, in sixteen parts."""


@pytest.fixture
async def site(tmp_path: Path, private_rabbit: PrivateRabbit) -> AsyncGenerator[Site]:
    (tmp_path / "home").mkdir()
    site = Site(tmp_path / "home", private_rabbit.url, None)
    try:
        await site.start_gateway()
        yield site
    finally:
        await asyncio.to_thread(site.stop)


@pytest.mark.storm
@pytest.mark.thorough
async def test_an_upload_survives_the_death_of_the_gateway(site: Site, tmp_path: Path) -> None:
    """It goes on at the next one, and nothing is left of its parts."""
    folder = await asyncio.to_thread(write_adapter, tmp_path / "wide", wide(), target_modules="x")
    async with connected(site) as client:
        upload = asyncio.create_task(client.adapters.upload(folder, "wide", reconnect_s=60.0))
        while not uploaded(site) and not upload.done():  # noqa: ASYNC110  files tell nobody
            await asyncio.sleep(0.001)
        assert not upload.done(), "the upload was over before the gateway was"
        await site.kill("gateway")
        await site.start_gateway()
        view = await upload
        assert await client.adapters.all() == (view,)
        assert (view.rank, view.targets) == (RANK, ("q_proj",))
        assert await client.adapters.delete("wide") == (view.reference,)
    assert [*(site.home / "adapters").glob("*"), *uploaded(site)] == []


def uploaded(site: Site) -> list[Path]:
    return list((site.home / "datasets" / "uploads").glob("*/*"))


def wide() -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    numbers = np.random.default_rng(1).random(RANK * WIDTH, np.float32).tobytes()
    return {
        half("q_proj", "A"): ("F32", (RANK, WIDTH), numbers),
        half("q_proj", "B"): ("F32", (WIDTH, RANK), numbers),
    }


@pytest.mark.storm
@pytest.mark.thorough
async def test_parity_row_33_an_exported_policy_is_brought_back_and_does_as_it_did(
    tmp_path: Path,
) -> None:
    """Evaluated, its mean is that of the run's own last evaluation; trained on and served, it is where that begins."""
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))
    changed = guess_config(steps=1).model_dump()
    changed["model"]["update"] = {"kind": "lora", "rank": 8, "alpha": 16.0}
    changed["sft"] |= {"steps": 60, "learning_rate": 0.01}
    changed["evaluation"] |= {"episodes": 32}
    config = warren.TrainConfig.model_validate(changed)
    async with site.running(site.gpu_worker, site.env_worker) as client:
        run = await client.train(config)
        of_run = await run.result()
        await run.download(tmp_path / "mine")
        view = await client.adapters.upload(tmp_path / "mine", "mine")
        assert (view.base_model, view.rank, view.alpha) == ("warren/tiny", 8, 16.0)
        evaluation = await client.evaluate(config, adapter="mine")
        of_adapter = await evaluation.run.result()
        assert of_adapter.outcome is RunOutcome.EVALUATED
        assert of_adapter.reward_after == pytest.approx(of_run.reward_after)
        served = await client.serve("helper", adapter="mine")
        assert served.adapter == view.reference
        again = changed | {
            "sft": None,
            "model": {"base": "warren/tiny", "update": {"kind": "lora", "start_adapter": "mine"}},
        }
        trained = await client.train(warren.TrainConfig.model_validate(again))
        of_trained = await trained.result()
        assert of_trained.reward_before == pytest.approx(of_run.reward_after)
        with pytest.raises(warren.GatewayError, match="is served as helper"):
            await client.adapters.delete("mine")
        await client.stop_serving("helper")
        await client.adapters.delete("mine")
        kept = await client.evaluate(policy=f"{trained.id}@last")
        assert (await kept.run.result()).outcome is RunOutcome.EVALUATED, "it needs no adapter"


async def test_weights_of_another_base_model_are_refused_by_who_loads_them(tmp_path: Path) -> None:
    site = tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))
    async with site.running(site.gpu_worker, site.env_worker) as client:
        await client.adapters.upload(write_adapter(tmp_path / "small"), "small")
        evaluation = await client.evaluate(adapter="small", environments=["guess"], episodes=4)
        with pytest.raises(warren.RunFailed) as failed:
            await evaluation.run.result()
    assert "sits on other modules" in str(failed.value) or "another base model" in str(failed.value)
