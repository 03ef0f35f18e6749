"""A base model that a user brings: by commands, to a GPU worker that fetches it and loads it in the place of its own.

One GPU worker and one env worker. The worker is killed while it loads, and another one like it is started.
"""

import asyncio
import json
import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest
from tests.support.deployment import Site, connected
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit
from tests.system.service.scene import User, job, until

from warren import Client, Run
from warren_gpu_worker.base_models.tiny import ensure_tiny

pytestmark = [pytest.mark.storm, pytest.mark.thorough, several_waits]


@pytest.fixture
async def site(tmp_path: Path, private_rabbit: PrivateRabbit) -> AsyncGenerator[Site]:
    (tmp_path / "home").mkdir()
    site = Site(tmp_path / "home", private_rabbit.url, None)
    try:
        await site.start_gateway()
        start_gpu_worker(site)
        site.start("env-1", "env-worker", "--env", "tests.support.chance:Chance")
        yield site
    finally:
        await asyncio.to_thread(site.stop)


def start_gpu_worker(site: Site) -> None:
    own = ("--base-model", "warren/tiny")
    site.start("gpu", "gpu-worker", *own, "--may-load", "warren/uploaded-*")


async def until_loading(client: Client, run: Run, base: str) -> None:
    async def is_told() -> bool:
        await run.refresh()
        assert not run.view.state.is_final, run.view.error
        return any(base in worker.loading for worker in await client.workers())

    await until(is_told)


async def test_a_base_model_is_brought_trained_and_evaluated(site: Site, tmp_path: Path) -> None:
    ann = User("local", site.url, (site.home / "api-key").read_text().strip(), tmp_path)
    tiny = ensure_tiny("warren/tiny-lora", site.home / "models")
    await asyncio.to_thread(shutil.copytree, tiny, tmp_path / "mine")
    (tmp_path / "mine" / "README.md").write_text("Mine.")
    told = await ann.type("base-models", "upload", "mine", "--name", "mine", code=2)
    assert "README.md: a base model has no such file" in told
    (tmp_path / "mine" / "README.md").unlink()
    view = await ann.read("base-models", "upload", "mine", "--name", "mine")
    base = cast("str", view["base_model"])
    (tmp_path / "job.yaml").write_text(json.dumps(job("brought")))
    await ann.type("train", "job.yaml", "--detach", "--set", "model.base=@mine")
    async with connected(site) as client:
        run = await client.run("brought")
        await until_loading(client, run, base)
        await site.kill("gpu")
        start_gpu_worker(site)
        async with asyncio.timeout(3 * PATIENCE_S):
            result = await run.result()
        assert result.reward_after is not None
        assert "Qwen3ForCausalLM" in await ann.type("base-models", "ls")
        asked = ("--env", "chance", "--episodes", "8")
        await ann.type("eval", "run", "--model", "@mine", *asked)
        await ann.type("eval", "run", "--policy", f"{run.id}@last", "--episodes", "8")
        (kept,) = [one for one in cached(site) if one.is_dir()]
        assert f"warren/{kept.name}" == base
    assert "is deleted" in await ann.type("base-models", "rm", "mine")
    assert [one for one in (site.home / "base-models").glob("*") if any(one.iterdir())] == []


def cached(site: Site) -> list[Path]:
    return list((site.home / "cache" / "base-models").iterdir())
