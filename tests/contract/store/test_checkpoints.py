"""Checkpoints over HTTP, and the end of a run for good."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlmodel import Session, col, select
from tests.support.gateway import CONFIG, Gateway

from warren_gateway.store.store import Store
from warren_gateway.store.tables import Checkpoint, MetricsRow, Model, OpRow, OutboxRow, Run
from warren_schemas.codec.wire import decode
from warren_schemas.http import CheckpointList, Problem
from warren_schemas.tensorboard.about import folder_name
from warren_schemas.training import DeleteModel


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    """Everything here holds on both databases."""
    store = await Store.open(any_store_url)
    yield store
    await store.close()


async def saved(gateway: Gateway, run: str, *names: str) -> str:
    """Checkpoints of the run, as its coordinator lists them; the model's id."""

    def write(session: Session) -> str:
        model = session.exec(select(Model).where(col(Model.run_id) == run)).one()
        for op, name in enumerate(names, 1):
            session.add(
                Checkpoint(
                    model_id=model.id,
                    name=name,
                    op=op,
                    version=op,
                    step=op,
                    reward=0.5,
                    url=f"file:///c/{name}",
                    size_bytes=10,
                    created_s=1.0,
                )
            )
        model.checkpoint_url = f"file:///c/{names[-1]}"
        session.add(
            OpRow(model_id=model.id, number=1, kind="optim_step", item_id="msg_1", body=b"")
        )
        return model.id

    return await gateway.store.transact(write)


async def end(gateway: Gateway, run: str, **values: object) -> None:
    values = {"state": "completed", "coordinator": None, **values}
    await gateway.store.transact(
        lambda session: session.exec(update(Run).where(col(Run.id) == run).values(**values))
    )


async def test_checkpoints_are_listed_for_their_owner(gateway: Gateway) -> None:
    run = await gateway.submit()
    await saved(gateway, run, "step-000001", "step-000002")
    async with gateway.ann.get(f"/v1/runs/{run}/checkpoints") as response:
        found = CheckpointList.model_validate_json(await response.read())
    assert [(view.name, view.version) for view in found.checkpoints] == [
        ("step-000001", 1),
        ("step-000002", 2),
    ]
    async with gateway.bob.get(f"/v1/runs/{run}/checkpoints") as response:
        assert response.status == 404


async def test_a_deleted_run_is_gone_and_its_files_are_left_to_clean_up(
    gateway: Gateway, tmp_path: Path
) -> None:
    run, other = await gateway.submit(), await gateway.submit()
    model = await saved(gateway, run, "step-000001")
    await end(gateway, run)
    folder = tmp_path / "runs" / folder_name("guessing", run)
    folder.mkdir(parents=True)
    await gateway.store.transact(lambda session: session.add(_metrics_of(run)))
    async with gateway.bob.post(f"/v1/runs/{run}/delete") as response:
        assert response.status == 404
    async with gateway.ann.post(f"/v1/runs/{run}/delete") as response:
        assert (response.status, (await response.json())["id"]) == (200, run)
    for request in (gateway.ann.get(f"/v1/runs/{run}"), gateway.ann.post(f"/v1/runs/{run}/delete")):
        async with request as response:
            assert response.status == 404
    async with gateway.ann.get(f"/v1/runs/{other}") as response:
        assert response.status == 200
    assert not folder.exists()

    def left(session: Session) -> tuple[int, int, list[str]]:
        rows = session.exec(select(OutboxRow).where(col(OutboxRow.address) == "file-cleanup"))
        orders = [item for row in rows for item in decode(row.body).items]
        models = [order.model for order in orders if isinstance(order, DeleteModel)]
        n_left = [len(session.exec(select(table)).all()) for table in (Checkpoint, MetricsRow)]
        return n_left[0], n_left[1], [str(name) for name in models]

    assert await gateway.store.transact(left) == (0, 0, [model])


def _metrics_of(run: str) -> MetricsRow:
    return MetricsRow(run_id=run, number=1, body={})


async def test_a_run_that_is_needed_is_not_deleted(gateway: Gateway) -> None:
    run = await gateway.submit()
    await saved(gateway, run, "step-000001")

    async def refusal() -> str:
        async with gateway.ann.post(f"/v1/runs/{run}/delete") as response:
            assert response.status == 409
            return Problem.model_validate_json(await response.read()).message

    assert "is queued: cancel it first" in await refusal()
    await end(gateway, run, coordinator="gateway_1")
    assert "try again in a moment" in await refusal()
    await end(gateway, run)
    resumed = await gateway.submit(config={**CONFIG, "resume_from": {"run": run}})
    assert f"{resumed} goes on from {run}" in await refusal()
    await end(gateway, resumed)
    async with gateway.ann.post(f"/v1/runs/{run}/delete") as response:
        assert response.status == 200


async def test_resuming_from_what_is_not_kept_names_what_is(gateway: Gateway) -> None:
    run = await gateway.submit()
    await saved(gateway, run, "step-000001", "step-000002")
    config = {**CONFIG, "resume_from": {"run": run, "checkpoint": "step-000009"}}
    async with gateway.ann.post("/v1/runs", json={"config": config}) as response:
        assert response.status == 422
        (detail,) = Problem.model_validate_json(await response.read()).details
    assert "no checkpoint step-000009; it has: step-000001, step-000002" in detail
