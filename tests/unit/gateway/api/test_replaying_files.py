"""Replays of archives and of uploaded exports, as they are asked for: what may be named, and what is told."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from tests.support.gateway import CONFIG, Gateway
from tests.support.recorded import decided, has_read
from tests.unit.gateway.api.test_checking import hear
from tests.unit.gateway.api.test_trajectories import GROUP, items, record

import warren
from warren.cli.commands.runs import replay as commands
from warren.cli.options import Gateway as GatewayOption
from warren.streams.export import export
from warren_gateway.position import Position
from warren_schemas.control import WorkerRole
from warren_schemas.http import DatasetKind
from warren_schemas.ids import RunId

REPLAY: dict[str, Any] = {"model": {"base": "warren/tiny"}, "environments": [{"name": "guess"}]}


@pytest_asyncio.fixture
async def run(gateway: Gateway) -> RunId:
    """It has recorded a group of five, and is over."""
    run = await gateway.submit()
    await record(gateway, run, items(run, 5))
    await decided(gateway, run, GROUP, [Position(0, i) for i in range(5)])
    await has_read(gateway, run, 1, "completed")
    return run


@pytest_asyncio.fixture
async def bob(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    key = gateway.bob.headers["Authorization"].removeprefix("Bearer ")
    async with warren.connect(gateway.url, key, retry_s=2.0) as client:
        yield client


async def uploaded(
    client: warren.Client, run: RunId, folder: Path, ending: str = "jsonl"
) -> warren.Dataset:
    path = folder / f"all.{ending}"
    await export((await client.run(run)).trajectories(), path)
    return await client.datasets.upload(path, "monday")


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "traces.jsonl"])
async def test_an_export_is_uploaded_and_replayed(
    client: warren.Client, run: RunId, tmp_path: Path, ending: str
) -> None:
    dataset = await uploaded(client, run, tmp_path, ending)
    assert (dataset.view.kind, dataset.view.n_rows) == (DatasetKind.TRAJECTORIES, 5)
    assert [row["group_size"] for row in await dataset.rows()] == [5] * 5
    replay = await client.replay(dataset, REPLAY, epochs=2, shuffle_window=9)
    assert replay.view.config
    source = replay.view.config.source
    assert isinstance(source, warren.RecordedSource)
    assert (source.run, source.dataset, source.epochs) == (None, dataset.reference, 2)
    with pytest.raises(warren.GatewayError, match="is read by"):
        await dataset.delete()
    named = {**REPLAY, "source": {"kind": "recorded", "dataset": "monday"}}
    again = await client.train(named)
    assert again.view.config and again.view.config.source == warren.RecordedSource(
        dataset=dataset.reference
    )


async def test_a_data_set_that_is_none_of_trajectories_is_told(
    client: warren.Client, run: RunId, bob: warren.Client, tmp_path: Path
) -> None:
    monday = await uploaded(client, run, tmp_path)
    (tmp_path / "chats.jsonl").write_bytes(orjson.dumps({"prompt": "a", "completion": "b"}) + b"\n")
    chats = await client.datasets.upload(tmp_path / "chats.jsonl", "chats")
    for source, told in (
        ({"dataset": "chats"}, "holds prompt_completion, and a replay takes trajectories"),
        ({"dataset": "nothing"}, "there is no data set nothing"),
        ({"dataset": "monday", "split": "dev"}, "source.split: monday has no split dev"),
    ):
        with pytest.raises(warren.ConfigurationError) as refused:
            await client.train({**REPLAY, "source": {"kind": "recorded", **source}})
        assert told in str(refused.value)
    with pytest.raises(warren.ConfigurationError, match="a replay takes trajectories"):
        await client.replay(chats, REPLAY)
    with pytest.raises(warren.ConfigurationError, match="there is no data set ann/monday"):
        await bob.replay(monday, REPLAY)
    with pytest.raises(warren.ConfigurationError, match="which are no tasks"):
        await client.train({**REPLAY, "environments": [{"name": "prompts", "dataset": "monday"}]})


async def test_the_best_of_a_run_are_fine_tuned_on_as_they_were_sampled(
    gateway: Gateway, client: warren.Client, run: RunId
) -> None:
    best = await client.datasets.collect(run, "best")
    assert (best.view.kind, best.view.n_rows) == (DatasetKind.TRAJECTORIES, 5)
    sft = {"dataset": "best", "steps": 1}
    tuned = {"model": REPLAY["model"], "sft": sft, "limits": {"steps": 0}}
    found = await client.train(tuned)
    assert found.view.config and found.view.config.sft
    assert found.view.config.sft.dataset == best.reference
    with pytest.raises(warren.ConfigurationError, match=r"sft\.roles: best holds trajectories, of"):
        await client.train({**tuned, "sft": {**sft, "roles": ["user"]}})
    words = await client.datasets.collect(run, "words", kind=DatasetKind.MESSAGES)
    assert (words.view.kind, words.view.n_rows) == (DatasetKind.MESSAGES, 5)
    hear(gateway, WorkerRole.TRAINER, "warren/tiny")
    hear(gateway, WorkerRole.SAMPLER, "other")
    assert not (await client.check(tuned)).mistakes
    (mistake,) = (await client.check({**tuned, "sft": {**sft, "dataset": "words"}})).mistakes
    assert mistake.startswith("model.base: no sampler offers warren/tiny")


async def test_an_archive_needs_a_run_that_kept_one_and_is_over(
    gateway: Gateway, client: warren.Client, run: RunId
) -> None:
    with pytest.raises(
        warren.ConfigurationError, match=r"keeps no archive \(its retention.archive"
    ):
        await client.replay(run, REPLAY, from_archive=True)
    kept = RunId((await client.train({**CONFIG, "retention": {"archive": "jsonl"}})).id)
    with pytest.raises(warren.ConfigurationError, match=r"source\.from_archive needs all of"):
        await client.replay(kept, REPLAY, from_archive=True)
    await has_read(gateway, kept, 0, "completed")
    replay = await client.replay(kept, REPLAY, from_archive=True)
    assert replay.view.config and replay.view.config.source == warren.RecordedSource(
        run=kept, from_archive=True
    )


async def test_the_command_replays_a_data_set(
    gateway: Gateway,
    client: warren.Client,
    run: RunId,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dataset = await uploaded(client, run, tmp_path)
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    config = tmp_path / "config.yaml"
    config.write_bytes(orjson.dumps(REPLAY))
    replaying = partial(commands.replay, into=config, gateway=GatewayOption(gateway.url, key))
    await asyncio.to_thread(replaying, dataset="monday", detach=True)
    replay = await client.run(capsys.readouterr().out.strip())
    assert replay.view.config and replay.view.config.source == warren.RecordedSource(
        dataset=dataset.reference
    )
    for wrong in ({}, {"dataset": "monday", "run": run}):
        with pytest.raises(warren.ConfigurationError, match="either a RUN or --dataset"):
            await asyncio.to_thread(
                commands.replay, wrong.get("run"), into=config, dataset=wrong.get("dataset")
            )


async def test_rows_that_are_many_bytes_are_answered_some_at_a_time(
    client: warren.Client, run: RunId, tmp_path: Path
) -> None:
    await export((await client.run(run)).trajectories(), tmp_path / "all.jsonl")
    row = orjson.loads((tmp_path / "all.jsonl").read_bytes().splitlines()[0])
    line = orjson.dumps({**row, "prompt": "x" * 2_900_000}) + b"\n"
    (tmp_path / "long.jsonl").write_bytes(line * 13)
    dataset = await client.datasets.upload(tmp_path / "long.jsonl", "long")
    assert len(await dataset.rows(limit=100)) == 11
    assert len(await dataset.rows(limit=100, offset=11)) == 2


def test_a_source_is_a_run_or_a_data_set() -> None:
    for keys, told in (
        ({}, "either run"),
        ({"run": "run_1", "dataset": "monday"}, "either run"),
        ({"run": "run_1", "split": "dev"}, "split is of a dataset"),
        ({"dataset": "monday", "from_offset": 3}, "from_offset: of runs"),
        (
            {"dataset": "monday", "also_runs": ["run_1"], "from_archive": True},
            "also_runs and from_",
        ),
        ({"run": "run_1", "from_archive": True, "from_s": 1.0}, "from_s: an archive does not tell"),
    ):
        with pytest.raises(ValueError, match=told):
            warren.RecordedSource.model_validate(keys)
