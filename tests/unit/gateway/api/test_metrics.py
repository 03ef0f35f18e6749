"""Metrics over HTTP, as the SDK reads them: complete, in order, from anywhere, to the run's end."""

import asyncio
import sys
from contextlib import aclosing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import insert, update
from sqlmodel import Session, col
from tests.support.gateway import Gateway, ended, step
from tests.support.patience import PATIENCE_S
from tests.unit.gateway.metrics.test_recorder import read_back

import warren
from warren.cli.commands.runs import metrics as command
from warren.cli.commands.runs import tensorboard
from warren.cli.commands.runs.tensorboard_mirror import Mirror
from warren.cli.options import Gateway as GatewayOption
from warren_gateway.metrics.reports import PAGE
from warren_gateway.store.tables import MetricsRow, Run
from warren_schemas.events import EvaluationCompleted, Phase, StepCompleted
from warren_schemas.ids import RunId
from warren_schemas.metrics.rows import metrics_view
from warren_schemas.tensorboard.about import folder_name
from warren_schemas.tensorboard.files import TensorBoardFiles
from warren_schemas.tensorboard.summaries import END_TAG


async def report(
    gateway: Gateway, run: RunId, first: int, *bodies: StepCompleted | EvaluationCompleted
) -> None:
    """What the run's coordinator would have stored and told."""
    rows = [
        {"run_id": run, "number": n, "body": metrics_view(body, n, 10.0).model_dump(mode="json")}
        for n, body in enumerate(bodies, start=first)
    ]

    def save(session: Session) -> None:
        session.exec(insert(MetricsRow), params=rows)

    await gateway.store.transact(save)
    await gateway.tell(run, bodies[-1])  # one event of any kind says: look


async def end(gateway: Gateway, run: RunId) -> None:
    def change(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == run).values(state="completed"))

    await gateway.store.transact(change)
    await gateway.tell(run, ended())


async def test_rows_come_once_in_order_and_from_anywhere(
    gateway: Gateway, client: warren.Client
) -> None:
    run, n_rows = await gateway.submit(), PAGE + 3
    await report(gateway, run, 1, *(step(n, reward_mean=n / 10) for n in range(1, n_rows + 1)))
    handle = await client.run(run)
    rows = [row async for row in handle.metrics()]
    assert [(row.number, row.step, row.metrics) for row in rows] == [
        (n, n, {"reward/mean": n / 10}) for n in range(1, n_rows + 1)
    ]
    assert [row.number async for row in handle.metrics(after=PAGE)] == [
        PAGE + 1,
        PAGE + 2,
        PAGE + 3,
    ]


async def test_following_ends_with_the_run(gateway: Gateway, client: warren.Client) -> None:
    run = await gateway.submit()
    handle = await client.run(run)
    evaluation = EvaluationCompleted(
        when="after", step=1, version=1, n_episodes=8, reward_mean=0.25, metrics={"env/exact": 0.5}
    )
    async with asyncio.timeout(PATIENCE_S), aclosing(handle.metrics(follow=True)) as rows:
        await report(gateway, run, 1, step(1, reward_mean=0.5))
        assert (await anext(rows)).metrics == {"reward/mean": 0.5}
        await report(gateway, run, 2, evaluation)
        last = await anext(rows)
        assert last.metrics == {"evaluation/reward_mean": 0.25, "evaluation/env/exact": 0.5}
        assert (last.phase, last.when, last.n_episodes) == ("evaluation", "after", 8)
        await end(gateway, run)
        with pytest.raises(StopAsyncIteration):
            await anext(rows)


async def test_a_gateway_that_stops_does_not_look_like_the_end(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    await report(gateway, run, 1, step(1, reward_mean=0.5))
    handle = await client.run(run)
    async with (
        asyncio.timeout(PATIENCE_S),
        aclosing(handle.metrics(follow=True, reconnect_s=0.0)) as rows,
    ):
        assert (await anext(rows)).number == 1
        gateway.services.closing.set()
        with pytest.raises(warren.GatewayUnreachable):
            await anext(rows)


async def test_a_run_that_is_over_is_told_to_its_end(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    await report(gateway, run, 1, step(1, reward_mean=0.5))
    await end(gateway, run)
    handle = await client.run(run)
    async with asyncio.timeout(PATIENCE_S):
        assert [row.number async for row in handle.metrics(follow=True)] == [1]


async def test_tags_choose_metrics(gateway: Gateway, client: warren.Client) -> None:
    run = await gateway.submit()
    await report(gateway, run, 1, step(1, reward_mean=0.5, policy_loss=1.0), step(2, policy_loss=2))
    handle = await client.run(run)
    rows = [row async for row in handle.metrics(["reward/*"])]
    assert [(row.number, row.metrics) for row in rows] == [(1, {"reward/mean": 0.5})]


async def test_metrics_are_their_owners(gateway: Gateway) -> None:
    run = await gateway.submit()
    async with gateway.bob.get(f"/v1/runs/{run}/metrics") as response:
        assert response.status == 404


async def test_the_command_names_the_best_of_what_policies_are_chosen_by(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await gateway.submit()
    tuned = [
        StepCompleted(
            phase=Phase.SFT, step=n, n_steps=6, version=n, n_episodes=n, metrics={"evaluation_loss": loss},
        )
        for n, loss in ((2, 0.5), (4, 0.25), (6, 0.75))
    ]  # fmt: skip
    await report(gateway, run, 1, *tuned)
    await asyncio.to_thread(partial(command.metrics, run, gateway=option(gateway)))
    lines = capsys.readouterr().out.splitlines()
    assert "The lowest sft/evaluation_loss is 0.25, after step 4." in lines


async def test_the_command_shows_the_newest_figures_with_what_they_are(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await gateway.submit()
    await report(
        gateway, run, 1, step(1, reward_mean=0.25, policy_loss=-3.0), step(2, reward_mean=1)
    )
    showing = partial(command.metrics, run, gateway=option(gateway))
    await asyncio.to_thread(showing)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:4] == ["reward/mean", "1", "reward", "2"]
    assert lines[2].split()[:4] == ["policy/loss", "-3", "loss", "1"]
    await asyncio.to_thread(showing, tag=("time/*",))
    assert capsys.readouterr().out == f"{run} has reported nothing that fits time/* yet.\n"
    await asyncio.to_thread(showing, csv=True, tag=("reward/*",))
    assert capsys.readouterr().out.splitlines() == [
        "number,at,phase,step,version,tag,value",
        "1,1970-01-01T00:00:10+00:00,training,1,1,reward/mean,0.25",
        "2,1970-01-01T00:00:10+00:00,training,2,2,reward/mean,1.0",
    ]
    with pytest.raises(warren.ConfigurationError, match="not both"):
        await asyncio.to_thread(showing, csv=True, json=True)


async def test_following_prints_a_line_for_each_step_and_ends_with_the_run(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await gateway.submit()
    await report(gateway, run, 1, step(1, reward_mean=0.5, seq_turns=2))
    await end(gateway, run)
    await asyncio.to_thread(command.metrics, run, follow=True, gateway=option(gateway))
    assert capsys.readouterr().out == "training 1  reward/mean 0.5\n"


async def test_a_mirror_holds_each_point_once_wherever_it_was_left(
    gateway: Gateway, client: warren.Client, tmp_path: Path
) -> None:
    run = await gateway.submit()
    await report(gateway, run, 1, step(1, reward_mean=0.5), step(2, reward_mean=0.75))
    await mirrored(client, run, tmp_path, follow=False)
    await report(gateway, run, 3, step(3, reward_mean=1.0))
    await end(gateway, run)
    await mirrored(client, run, tmp_path, follow=True)
    await mirrored(client, run, tmp_path, follow=True)
    folder = tmp_path / folder_name("guessing", run)
    assert read_back(folder) == {"1_reward/mean": [(1, 0.5), (2, 0.75), (3, 1.0)]}
    tags = [tag for _, _, tag in TensorBoardFiles(folder).points()]
    assert {"config", "custom_scalars__config__", END_TAG} <= set(tags)


async def mirrored(client: warren.Client, run: RunId, folder: Path, *, follow: bool) -> None:
    mirror = Mirror(await client.run(run), folder)
    async with asyncio.timeout(PATIENCE_S):
        await mirror.catch_up()
        if follow:
            await mirror.follow(reconnect_s=1.0)
    await mirror.close()


async def test_tensorboard_needs_runs_and_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(warren.ConfigurationError, match="needs the runs to show"):
        tensorboard.tensorboard()
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    with pytest.raises(warren.ConfigurationError) as refused:
        tensorboard.tensorboard("last")
    assert "pip install '.[tensorboard]' in your clone" in str(refused.value)


def option(gateway: Gateway) -> GatewayOption:
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    return GatewayOption(gateway.url, key)
