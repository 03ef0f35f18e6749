"""Answers to the prompts of a file: through a real sampler and env worker, and through the command."""

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.support.one_process import Site, in_process, tiny_site
from tests.support.patience import several_waits

from warren.run_configs.answers import expected_of, write_answers
from warren.run_configs.configs import config_of_inference
from warren_broker.port import Broker
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.operator_policy import TRUSTING

ROWS = [{"prompt": f"{n}+{n}=", "id": n} for n in range(12)]
PROMPTS = EnvWorkerSettings(
    environments=("warren_env_worker.environments.prompts:Prompts",), only_named=True
)
FEW = ("--set", "sampling.max_tokens=4")


async def env_worker(broker: Broker) -> None:
    await serve_env_worker(broker, PROMPTS, policy=TRUSTING)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return tiny_site(tmp_path, lambda: in_process(tmp_path / "streams"))


def prompts(folder: Path) -> Path:
    file = folder / "sums.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@several_waits
async def test_parity_row_02_every_prompt_is_answered_in_the_order_of_the_file(
    site: Site, tmp_path: Path
) -> None:
    file, to, again = prompts(tmp_path), tmp_path / "answers.jsonl", tmp_path / "again.parquet"
    async with site.running(site.gpu_worker, env_worker) as client:
        there = ("--url", site.url, "--api-key", client.settings.api_key or "")
        who = ("--model", "warren/tiny", "--samples", "2", "--temperature", "1")
        said = await command("infer", str(file), *who, *FEW, "--to", str(to), *there)
        assert f"{to}: 24 lines" in said
        await command("infer", "--run", "last", "--to", str(again), *there)
    found = lines(to)
    assert [(line["row"], line["sample"]) for line in found] == [
        (n, sample) for n in range(len(ROWS)) for sample in range(2)
    ]
    assert [line["input"] for line in found] == [row for row in ROWS for _ in range(2)]
    assert all(isinstance(line["answer"], str) and line["error"] is None for line in found)
    parquet: Any = import_module("pyarrow.parquet")
    rows = parquet.read_table(again).to_pylist()
    assert [row["answer"] for row in rows] == [line["answer"] for line in found]


@pytest.mark.storm
@pytest.mark.thorough
@several_waits
async def test_one_that_was_torn_down_in_the_middle_answers_the_same(
    site: Site, tmp_path: Path
) -> None:
    """Gateway, broker and workers at once; greedy answers are the same whoever gives them."""
    async with site.running(site.gpu_worker, env_worker) as client:
        dataset = await client.datasets.upload(prompts(tmp_path), "sums")
        config = config_of_inference(
            dataset.reference, len(ROWS), model="warren/tiny", changes=FEW[1:]
        )
        torn = await client.train(config)
        async for _ in torn.trajectories(follow=True):
            break
    async with site.running(site.gpu_worker, env_worker) as client:
        torn = await client.run(torn.id)
        await torn.result()
        whole = await client.train(config)
        await whole.result()
        for run, name in ((torn, "torn.jsonl"), (whole, "whole.jsonl")):
            written = await write_answers(
                run.trajectories(), tmp_path / name, expected_of(run.view)
            )
            assert written == (len(ROWS), 0, 0)
    assert lines(tmp_path / "torn.jsonl") == lines(tmp_path / "whole.jsonl")


async def command(*words: str) -> str:
    """What `warren` prints; it must end well."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "warren", *words, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()
    assert process.returncode == 0
    return said.decode()
