"""Adapters that users bring: through a gateway that is killed meanwhile, and all the way to samplers and trainers."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.adapters import half, write_adapter
from tests.support.deployment import Site, connected
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

import warren
from warren.adapters import handle
from warren_schemas.adapters.weights import WEIGHTS_FILE
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


async def test_an_upload_survives_the_death_of_the_gateway(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts that had come are not sent again, and those of nobody's version are found by nobody."""
    folder = await asyncio.to_thread(write_adapter, tmp_path / "wide", wide(), target_modules="x")
    begun, sent, middle = list[int](), list[bytes](), asyncio.Event()
    parts = handle._parts  # pyright: ignore[reportPrivateUsage]

    def counted(path: Path, received: int) -> Iterator[bytes]:
        begun.append(received)
        for part in parts(path, received):
            sent.append(part)
            if len(sent) == 6:
                loop.call_soon_threadsafe(middle.set)
            yield part

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(handle, "_parts", counted)
    async with connected(site) as client:
        upload = asyncio.create_task(client.adapters.upload(folder, "wide", reconnect_s=60.0))
        await middle.wait()
        await site.kill("gateway")
        await site.start_gateway()
        view = await upload
        n_parts = sum(1 for _ in parts(folder / WEIGHTS_FILE, 0))
        assert n_parts > 6, "the upload was over before the gateway was"
        assert len(sent) < n_parts + len(begun), "at most what was under way is sent again"
        assert await client.adapters.all() == (view,)
        assert (view.rank, view.targets) == (RANK, ("q_proj",))
        assert await client.adapters.delete("wide") == (view.reference,)
    left = [*(site.home / "adapters").glob("*"), *(site.home / "datasets" / "uploads").glob("*/*")]
    assert left == []


def wide() -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    numbers = np.random.default_rng(1).random(RANK * WIDTH, np.float32).tobytes()
    return {
        half("q_proj", "A"): ("F32", (RANK, WIDTH), numbers),
        half("q_proj", "B"): ("F32", (WIDTH, RANK), numbers),
    }


async def test_an_exported_policy_is_brought_back_and_does_as_it_did(tmp_path: Path) -> None:
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
