"""Sweeps: a config with several values for some keys, as a group of runs that are compared."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session
from tests.support.gateway import CONFIG, Gateway, step
from tests.support.gateway_fixtures import client

import warren
from warren.cli.commands.runs import runs as commands
from warren.cli.commands.runs.train import train
from warren.cli.options import Gateway as GatewayOption
from warren.run_configs.sweeps.grid import configs_of
from warren.run_configs.sweeps.handle import sweep_bodies
from warren_gateway.store.tables import MetricsRow, Run
from warren_schemas.events import RunState
from warren_schemas.metrics.rows import metrics_view

__all__ = ["client"]

RATES = {"optimizer.learning_rate": [1e-4, 3e-4], "seed": [1, 2]}


def values_of(run: warren.Run) -> tuple[float, int]:
    config = run.view.config
    assert config is not None
    return config.optimizer.learning_rate, config.seed


async def test_a_run_for_each_combination_in_order(client: warren.Client) -> None:
    sweep = await client.sweep(CONFIG, RATES, name="rates")
    expected = [(1e-4, 1), (1e-4, 2), (3e-4, 1), (3e-4, 2)]
    assert [values_of(run) for run in sweep.runs] == expected
    assert {run.view.sweep for run in sweep.runs} == {"rates"}
    await client.train(CONFIG)
    found = await client.runs(sweep="rates")
    assert [run.id for run in reversed(found)] == [run.id for run in sweep.runs]
    assert await client.runs(sweep="other") == []


async def test_the_same_name_gives_the_same_runs(gateway: Gateway, client: warren.Client) -> None:
    """However often, at once, and where the first submission was cut off."""
    half = [
        await gateway.ann.post("/v1/runs", json=body.model_dump(mode="json"))
        for body in sweep_bodies("cut-off", configs_of(CONFIG, RATES)[:2])
    ]
    first = [(await response.json())["id"] for response in half]
    sweeps = await asyncio.gather(*(client.sweep(CONFIG, RATES, name="cut-off") for _ in range(4)))
    ids = {tuple(run.id for run in sweep.runs) for sweep in sweeps}
    assert len(ids) == 1
    assert [run.id for run in sweeps[0].runs][:2] == first
    assert len(await client.runs(sweep="cut-off")) == 4
    with pytest.raises(warren.GatewayError, match="already used"):
        await client.sweep(CONFIG, {"seed": [7, 8]}, name="cut-off")


@pytest.mark.parametrize(
    ("grid", "what"),
    [
        ({}, "varies nothing"),
        ({"seed": []}, "no values for seed"),
        ({"seed": [1, 1]}, "are the same: seed=1"),
        ({"seed": range(300)}, "has 300 runs"),
        ({"seed": [1, "x"]}, "no valid run config"),
        ({"optimizer.rate": [1]}, "no valid run config"),
        ({"seed.x": [1, 2]}, "has no keys below it"),
    ],
)
async def test_nothing_is_submitted_of_a_sweep_that_is_not_valid(
    client: warren.Client, grid: dict[str, Any], what: str
) -> None:
    with pytest.raises(warren.ConfigurationError) as refused:
        await client.sweep({**CONFIG, "seed": 1}, grid)
    assert what in str(refused.value)
    assert await client.runs() == []


async def test_what_a_value_replaces_is_not_kept(client: warren.Client) -> None:
    """As in a file: keys of one kind don't stay when another is chosen."""
    grid = {"algorithm.loss.kind": ["cispo", "importance_sampling"]}
    sweep = await client.sweep(warren.TrainConfig.model_validate(CONFIG), grid)
    configs = [run.view.config for run in sweep.runs]
    assert [c.algorithm.loss.kind for c in configs if c] == ["cispo", "importance_sampling"]


async def test_a_name_that_cannot_be_is_refused(client: warren.Client) -> None:
    with pytest.raises(warren.ConfigurationError, match="can't be a sweep"):
        await client.sweep(CONFIG, {"seed": [1, 2]}, name="a b")


async def test_its_runs_are_compared_by_their_best(
    gateway: Gateway, client: warren.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = await client.sweep(CONFIG, RATES, name="rates")

    def report(session: Session) -> None:
        for number, run in enumerate(sweep.runs[:3]):
            for at, reward in enumerate((0.1 * number, 0.5 + 0.1 * number, 0.3), start=1):
                view = metrics_view(step(at, reward_mean=reward), at, 0.0)
                body = view.model_dump(mode="json")
                session.add(MetricsRow(run_id=run.id, number=at, body=body))

    await gateway.store.transact(report)
    found = await sweep.compare()
    assert found.metric == "reward/mean"
    assert [one.run for one in found.runs] == [sweep.runs[i].id for i in (2, 1, 0, 3)]
    assert (found.runs[0].best, found.runs[0].best_step) == (pytest.approx(0.7), 2)
    assert found.runs[0].differs == {"optimizer.learning_rate": "0.0003", "seed": "1"}
    assert found.runs[3].best is None
    lowest = await sweep.compare("reward/mean", lowest=True)
    assert lowest.runs[0].run == sweep.runs[0].id
    option = GatewayOption(client.settings.url, client.settings.api_key)
    await asyncio.to_thread(commands.compare, sweep="rates", gateway=option)
    printed = capsys.readouterr().out
    assert printed.splitlines()[1].split()[:3] == [sweep.runs[2].id, "0.0003", "1"]
    with pytest.raises(warren.ConfigurationError, match="either runs or --sweep"):
        await asyncio.to_thread(commands.compare, gateway=option)
    with pytest.raises(warren.NotFound, match="no sweep nothing"):
        await asyncio.to_thread(commands.compare, sweep="nothing", gateway=option)


async def test_all_of_them_are_cancelled_and_those_that_are_over_stay(
    gateway: Gateway, client: warren.Client
) -> None:
    sweep = await client.sweep(CONFIG, RATES, name="rates")

    def end(session: Session) -> None:
        session.get_one(Run, sweep.runs[0].id).state = RunState.COMPLETED

    await gateway.store.transact(end)
    option = GatewayOption(client.settings.url, client.settings.api_key)
    for _ in range(2):
        await asyncio.to_thread(commands.cancel, sweep="rates", gateway=option)

    def asked(session: Session) -> list[bool]:
        return [session.get_one(Run, run.id).is_cancel_requested for run in sweep.runs]

    assert await gateway.store.transact(asked) == [False, True, True, True]
    with pytest.raises(warren.ConfigurationError, match="either a run or"):
        await asyncio.to_thread(lambda: commands.cancel(gateway=option))
    with pytest.raises(warren.ConfigurationError, match="--json goes with one run"):
        await asyncio.to_thread(lambda: commands.cancel(sweep="rates", json=True, gateway=option))


async def test_from_the_command_line(
    client: warren.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps(CONFIG))
    option = GatewayOption(client.settings.url, client.settings.api_key)

    def sweep(*written: str, **more: Any) -> int:
        return train(path, sweep=written, gateway=option, **more)

    rates = ("optimizer.learning_rate=1e-4,3e-4", "seed=1,2")
    await asyncio.to_thread(lambda: sweep(*rates, dry_run=True))
    assert await client.runs() == []
    await asyncio.to_thread(lambda: sweep(*rates, sweep_name="rates"))
    printed = capsys.readouterr().out
    assert "warren runs compare --sweep rates" in printed
    runs = await client.runs(sweep="rates")
    assert [values_of(run) for run in reversed(runs)] == [
        (1e-4, 1), (1e-4, 2), (3e-4, 1), (3e-4, 2)
    ]  # fmt: skip
    await asyncio.to_thread(commands.ls, sweep="rates", gateway=option)
    assert all(run.id in capsys.readouterr().out for run in runs[:1])
    for written in ("seed", "=1,2", "seed=[1"):
        with pytest.raises(warren.ConfigurationError, match="--sweep"):
            await asyncio.to_thread(sweep, written)
    with pytest.raises(warren.ConfigurationError, match="was given before"):
        await asyncio.to_thread(sweep, "seed=1,2", "seed=3,4")
    with pytest.raises(warren.ConfigurationError, match="--detach goes with one run"):
        await asyncio.to_thread(lambda: sweep("seed=1,2", detach=True))
    with pytest.raises(warren.ConfigurationError, match="--sweep-name needs --sweep"):
        await asyncio.to_thread(lambda: sweep(sweep_name="x"))
