"""What owners ask of their runs, in each state: done, done already, or refused with what can be done."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import col, select
from tests.support.gateway import CONFIG, Gateway

from warren_gateway.access.caller import Viewer
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Checkpoint, Model, OutboxRow, Run
from warren_schemas.events import RunState
from warren_schemas.http import RunView, SetRun


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    """Everything here holds on both databases."""
    store = await Store.open(any_store_url)
    yield store
    await store.close()


async def ask(gateway: Gateway, run: str, verb: str, **body: Any) -> tuple[int, dict[str, Any]]:
    async with gateway.ann.post(f"/v1/runs/{run}/{verb}", json=body) as response:
        return response.status, await response.json()


async def set_row(gateway: Gateway, run: str, **values: Any) -> None:
    change = update(Run).where(col(Run.id) == run).values(**values)
    await gateway.store.transact(lambda session: session.exec(change))


async def row_of(gateway: Gateway, run: str) -> Run:
    return await gateway.store.transact(lambda session: session.get_one(Run, run))


REFUSED = [
    ("finish", RunState.QUEUED, None, "queued and has done nothing"),
    ("finish", RunState.PAUSED, "pause", "is paused"),
    ("finish", RunState.FAILED, "finish", "it is failed"),
    ("finish", RunState.RUNNING, "save_and_cancel", "is being cancelled"),
    ("pause", RunState.FINISHING, None, "is finishing"),
    ("pause", RunState.RUNNING, "finish", "is finishing"),
    ("pause", RunState.CANCELLED, "pause", "it is cancelled"),
    ("resume", RunState.COMPLETED, None, "it is completed"),
    ("cancel", RunState.COMPLETED, None, "it is completed"),
    ("retry", RunState.RUNNING, None, "only one that failed or was cancelled"),
    ("retry", RunState.COMPLETED, None, "it is completed"),
]


@pytest.mark.parametrize(("verb", "state", "stop_request", "why"), REFUSED)
async def test_a_verb_that_makes_no_sense_is_409_and_changes_nothing(
    gateway: Gateway, verb: str, state: RunState, stop_request: str | None, why: str
) -> None:
    run = await gateway.submit()
    await set_row(gateway, run, state=state, stop_request=stop_request)
    status, problem = await ask(gateway, run, verb)
    assert status == 409
    assert why in problem["message"]
    assert (await row_of(gateway, run)).stop_request == stop_request


DONE = [
    ("finish", RunState.RUNNING, None, "finish"),
    ("finish", RunState.STARTING, "pause", "finish"),
    ("finish", RunState.FINISHING, None, None),
    ("finish", RunState.COMPLETED, "finish", "finish"),
    ("pause", RunState.QUEUED, None, "pause"),
    ("pause", RunState.PAUSED, "pause", "pause"),
    ("resume", RunState.PAUSED, "pause", None),
    ("resume", RunState.RUNNING, None, None),
]


@pytest.mark.parametrize(("verb", "state", "before", "after"), DONE)
async def test_a_verb_is_noted_and_may_be_asked_for_again(
    gateway: Gateway, verb: str, state: RunState, before: str | None, after: str | None
) -> None:
    run = await gateway.submit()
    await set_row(gateway, run, state=state, stop_request=before)
    for _ in range(2):
        assert (await ask(gateway, run, verb))[0] == 200
        assert (await row_of(gateway, run)).stop_request == after


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.PAUSED])
async def test_a_run_is_saved_first_where_there_is_something_to_save(
    gateway: Gateway, state: RunState
) -> None:
    run = await gateway.submit()
    await set_row(gateway, run, state=state)
    assert (await ask(gateway, run, "cancel", save=True))[0] == 200
    row = await row_of(gateway, run)
    is_saved_already = state is RunState.PAUSED
    assert (row.is_cancel_requested, row.stop_request == "save_and_cancel") == (
        is_saved_already,
        not is_saved_already,
    )


async def test_other_gateways_are_told_in_the_same_transaction(gateway: Gateway) -> None:
    run = await gateway.submit()
    await ask(gateway, run, "pause")
    posts = await gateway.store.transact(lambda session: list(session.exec(select(OutboxRow))))
    assert [post.address for post in posts].count("run-changes") == 1


async def test_the_first_state_of_a_run_is_in_its_history(gateway: Gateway) -> None:
    run = await gateway.submit()
    async with gateway.ann.get(f"/v1/runs/{run}") as response:
        view = RunView.model_validate_json(await response.read())
    assert [(one.state, one.reason) for one in view.history] == [(RunState.QUEUED, None)]
    assert view.history[0].at_s == view.created_s


@pytest.mark.parametrize("has_saved", [True, False])
async def test_a_failed_run_is_retried_once_from_what_it_has_saved(
    gateway: Gateway, has_saved: bool
) -> None:
    run = await gateway.submit()
    if has_saved:
        await _save_checkpoint(gateway, run)
    await set_row(gateway, run, state=RunState.FAILED)

    answers = [await ask(gateway, run, "retry") for _ in range(2)]

    assert [status for status, _ in answers] == [201, 200]
    first, again = (RunView.model_validate(body, strict=False) for _, body in answers)
    assert (first.id, first.retry_of) == (again.id, run)
    assert first.config
    assert (first.config.resume_from is not None) == has_saved
    async with gateway.ann.get(f"/v1/runs/{first.id}") as response:
        view = RunView.model_validate_json(await response.read())
    assert view.history[0].reason == f"goes on for {run}"


async def _save_checkpoint(gateway: Gateway, run: str) -> None:
    model = await gateway.store.transact(
        lambda session: session.exec(select(Model).where(col(Model.run_id) == run)).one()
    )
    saved = Checkpoint(
        model_id=model.id, name="step-000003", op=9, version=3, step=3, url="mem://c",
        size_bytes=1, created_s=1.0,
    )  # fmt: skip
    change = update(Model).where(col(Model.id) == model.id).values(checkpoint_url="mem://c")

    def save(session: Any) -> None:
        session.add(saved)
        session.exec(change)

    await gateway.store.transact(save)


async def test_owners_lower_the_priority_of_their_runs_and_admins_alone_raise_it(
    gateway: Gateway,
) -> None:
    run = await gateway.submit(priority=-5)
    assert (await row_of(gateway, run)).priority == -5
    gateway.queue.runs.clear()
    status, view = await ask(gateway, run, "set", priority=-7)
    assert (status, view["priority"], gateway.queue.runs) == (200, -7, [run])

    status, problem = await ask(gateway, run, "set", priority=1)
    assert (status, problem["message"].split()[2]) == (403, "admin")
    body = {"config": CONFIG, "priority": 1}
    async with gateway.ann.post("/v1/runs", json=body) as response:
        assert response.status == 403
    assert (await row_of(gateway, run)).priority == -7

    runs = gateway.services.runs
    assert (await runs.change(Viewer("root", sees_all=True), run, SetRun(priority=9))).priority == 9
    await set_row(gateway, run, state=RunState.FAILED)
    status, successor = await ask(gateway, run, "retry")
    assert (status, successor["priority"]) == (201, 0)
