"""What a run reported around its checkpoints: over HTTP, as the SDK reads it and the command shows it."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from sqlalchemy import insert
from sqlmodel import Session, col, select
from tests.support.gateway import Gateway, step

import warren
from warren.cli.commands.runs import checkpoints
from warren.cli.options import Gateway as GatewayOption
from warren_gateway.store.tables import Checkpoint, MetricsRow, Model
from warren_schemas.events import EvaluationCompleted, StepCompleted
from warren_schemas.ids import RunId
from warren_schemas.metrics.rows import metrics_view


@pytest_asyncio.fixture
async def client(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    async with warren.connect(gateway.url, _key(gateway), retry_s=2.0) as client:
        yield client


def _key(gateway: Gateway) -> str:
    return gateway.ann.headers["Authorization"].removeprefix("Bearer ")


def _sft(number: int) -> StepCompleted:
    return step(number, nll=0.5).model_copy(update={"phase": warren.Phase.SFT, "version": number})


def _evaluated(at_step: int, version: int, reward: float) -> EvaluationCompleted:
    return EvaluationCompleted.model_validate(
        {
            "when": "during",
            "step": at_step,
            "version": version,
            "n_episodes": 8,
            "reward_mean": reward,
            "metrics": {},
        }
    )


async def _run_with_checkpoints(gateway: Gateway) -> RunId:
    """Two SFT steps, an evaluation, three steps, an evaluation; saved after `sft` 2, steps 1 and 3."""
    run = await gateway.submit()
    reports = [
        _sft(1),
        _sft(2),
        _evaluated(0, 2, 0.25),
        step(1, reward_mean=0.1, policy_entropy=2.0),
        step(2, reward_mean=0.2),
        step(3, reward_mean=0.3, policy_entropy=1.5),
        _evaluated(3, 5, 0.75),
    ]
    saved = [("sft-000002", 0, 2), ("step-000001", 1, 3), ("step-000003", 3, 5)]

    def save(session: Session) -> None:
        model = session.exec(select(Model).where(col(Model.run_id) == run)).one()
        rows = [metrics_view(body, n, 10.0) for n, body in enumerate(reports, start=1)]
        session.exec(
            insert(MetricsRow),
            params=[
                {"run_id": run, "number": row.number, "body": row.model_dump(mode="json")}
                for row in rows
            ],
        )
        for op, (name, at, version) in enumerate(saved):
            session.add(
                Checkpoint(
                    model_id=model.id,
                    name=name,
                    op=op,
                    version=version,
                    step=at,
                    reward=at / 10 if at else None,
                    url=f"file:///{name}",
                    size_bytes=1,
                    created_s=1.0,
                )
            )

    await gateway.store.transact(save)
    return run


async def test_each_checkpoint_has_its_step_and_the_evaluations_around_it(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await client.run(await _run_with_checkpoints(gateway))

    found = (await run.checkpoint_metrics()).checkpoints

    assert [view.name for view in found] == ["sft-000002", "step-000001", "step-000003"]
    assert [view.metrics for view in found] == [
        {"sft/nll": 0.5},
        {"reward/mean": 0.1, "policy/entropy": 2.0},
        {"reward/mean": 0.3, "policy/entropy": 1.5},
    ]
    before = [view.evaluation_before and view.evaluation_before.reward_mean for view in found]
    after = [view.evaluation_after and view.evaluation_after.reward_mean for view in found]
    assert before == [0.25, 0.25, 0.75]
    assert after == [0.25, 0.75, 0.75]


async def test_the_command_shows_a_table_with_units(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await _run_with_checkpoints(gateway)
    here = GatewayOption(url=gateway.url, api_key=_key(gateway))

    await asyncio.to_thread(checkpoints.metrics, run, gateway=here)

    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        (
            "CHECKPOINT   STEP  POLICY VERSION  REWARD  EVALUATED BEFORE  EVALUATED AFTER"
            "  POLICY/ENTROPY [NATS]"
        ),
        (
            "sft-000002      0               2       -   0.250 at step 0  0.250 at step 0"
            "                      -"
        ),
        (
            "step-000001     1               3   0.100   0.250 at step 0  0.750 at step 3"
            "                      2"
        ),
        (
            "step-000003     3               5   0.300   0.750 at step 3  0.750 at step 3"
            "                    1.5"
        ),
    ]


async def test_the_command_prints_json_for_programs(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await _run_with_checkpoints(gateway)
    here = GatewayOption(url=gateway.url, api_key=_key(gateway))

    await asyncio.to_thread(checkpoints.metrics, run, json=True, gateway=here)

    found = warren.CheckpointMetricsList.model_validate_json(capsys.readouterr().out)
    assert len(found.checkpoints) == 3


async def test_a_run_without_checkpoints_says_when_there_will_be_one(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await gateway.submit()
    here = GatewayOption(url=gateway.url, api_key=_key(gateway))

    await asyncio.to_thread(checkpoints.metrics, run, gateway=here)

    assert "checkpoint.every_steps" in capsys.readouterr().out


async def test_another_owner_s_run_does_not_exist(gateway: Gateway) -> None:
    run = await _run_with_checkpoints(gateway)
    async with gateway.bob.get(f"/v1/runs/{run}/checkpoints/metrics") as response:
        assert response.status == 404
        assert run in (await response.json())["message"]
