"""Metrics over HTTP, as the SDK reads them: complete, in order, from anywhere, to the run's end."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
import pytest_asyncio
from sqlalchemy import insert, update
from sqlmodel import Session, col
from tests.support.gateway import Gateway, ended, step

import warren
from warren_gateway.metrics.reports import PAGE
from warren_gateway.store.tables import MetricsRow, Run
from warren_schemas.events import EvaluationCompleted, StepCompleted
from warren_schemas.ids import RunId
from warren_schemas.metrics.rows import metrics_view


@pytest_asyncio.fixture
async def client(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    async with warren.connect(gateway.url, key, retry_s=2.0) as client:
        yield client


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
    async with asyncio.timeout(60), aclosing(handle.metrics(follow=True)) as rows:
        await report(gateway, run, 1, step(1, reward_mean=0.5))
        assert (await anext(rows)).metrics == {"reward/mean": 0.5}
        await report(gateway, run, 2, evaluation)
        last = await anext(rows)
        assert last.metrics == {"evaluation/reward_mean": 0.25, "evaluation/env/exact": 0.5}
        assert (last.phase, last.when, last.n_episodes) == ("evaluation", "after", 8)
        await end(gateway, run)
        with pytest.raises(StopAsyncIteration):
            await anext(rows)


async def test_a_run_that_is_over_is_told_to_its_end(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await gateway.submit()
    await report(gateway, run, 1, step(1, reward_mean=0.5))
    await end(gateway, run)
    handle = await client.run(run)
    async with asyncio.timeout(60):
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
