"""Runs over HTTP: submit, list, show, cancel; each with what can be wrong about it."""

import asyncio
import io
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import Session, col, select
from tests.support.gateway import CONFIG, Gateway
from yarl import URL

from warren_broker.inbox import follow
from warren_broker.topology import run_events
from warren_gateway.access.caller import Viewer
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Model, OutboxRow, Run
from warren_schemas.events import RunEvent, RunState, StateChanged
from warren_schemas.http import Problem, RunList, RunView
from warren_schemas.tensorboard.about import folder_name
from warren_schemas.text.explain import MOST_TOLD

KEY = "a key of mine"


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    """Everything here holds on both databases."""
    store = await Store.open(any_store_url)
    yield store
    await store.close()


async def test_a_submitted_run_is_queued_with_its_model_and_first_event(gateway: Gateway) -> None:
    async with gateway.ann.post("/v1/runs", json={"config": CONFIG}) as response:
        assert response.status == 201
        run = RunView.model_validate_json(await response.read())
    assert (run.state, run.name, run.n_steps) == (RunState.QUEUED, "guessing", 100)
    assert run.config and run.config.algorithm.group_size == 16
    model = await gateway.store.transact(lambda session: session.exec(select(Model)).one())
    assert (model.run_id, model.base_model, model.epoch) == (run.id, "warren/tiny", 0)
    assert (gateway.queue.runs, gateway.follower.runs) == ([run.id], [])
    relaying = asyncio.create_task(gateway.relay.run())
    async with follow(gateway.broker, run_events(run.id), RunEvent, start="first") as inbox:
        (claim,) = await anext(inbox)
        assert claim.item.body == StateChanged(state=RunState.QUEUED)
        assert claim.item.envelope.run == run.id
        claim.done()
    relaying.cancel()
    await asyncio.gather(relaying, return_exceptions=True)


async def test_a_run_that_needs_no_trainer_waits_in_no_queue(gateway: Gateway) -> None:
    """Who drives runs hears of it at once."""
    evaluation = {
        "name": "alone",
        "model": CONFIG["model"],
        "environments": CONFIG["environments"],
        "evaluation": {"episodes": 8},
        "limits": {"steps": 0},
    }
    run = await gateway.submit(config=evaluation)
    assert (gateway.queue.runs, gateway.follower.runs) == ([], [run])


async def test_the_same_key_gives_the_same_run(gateway: Gateway) -> None:
    body = {"config": CONFIG, "idempotency_key": KEY}
    answers: list[tuple[int, str]] = []
    for _ in range(2):
        async with gateway.ann.post("/v1/runs", json=body) as response:
            answers.append((response.status, (await response.json())["id"]))
    (first, run), (second, same) = answers
    assert (first, second, run) == (201, 200, same)
    async with gateway.bob.post("/v1/runs", json=body) as response:
        assert response.status == 201  # another owner's keys are his own
        assert (await response.json())["id"] != run


async def test_the_same_key_with_another_config_is_refused(gateway: Gateway) -> None:
    run = await gateway.submit(idempotency_key=KEY)
    other = {"config": {**CONFIG, "seed": 1}, "idempotency_key": KEY}
    async with gateway.ann.post("/v1/runs", json=other) as response:
        assert response.status == 409
        problem = await _problem(response)
    assert problem.code == "idempotency_key_reused"
    assert run in problem.message


async def test_the_same_key_twenty_times_at_once_makes_one_run(gateway: Gateway) -> None:
    submitting = [gateway.submit(idempotency_key=KEY) for _ in range(20)]
    runs = set(await asyncio.gather(*submitting))
    rows = await gateway.store.transact(lambda session: session.exec(select(Run.id)).all())
    posted = await gateway.store.transact(lambda session: session.exec(select(OutboxRow)).all())
    assert runs == set(rows)
    assert len(rows) == len(posted) == 1


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"algorithm": {"group_sise": 8}}, "config.algorithm.group_sise: unknown key; did you mean group_size?"),
        ({"algorithm": {"group_size": "8"}}, "config.algorithm.group_size: expected a whole number"),
        ({"algorithm": {"group_size": 1}}, "config.algorithm.group_size: expected a number of at least 2"),
        ({"algorithm": {"group_size": 1025}}, "config.algorithm.group_size: expected a number of at most 1024"),
        (
            {"environments": [{"name": "guess", "group_size": 10**6}]},
            "config.environments.0.group_size: expected a number of at most 1024",
        ),
        ({"limits": {"in_flight": 10**6}}, "config.limits.in_flight: expected a number of at most 100000"),
        ({"model": {}}, "config.model.base: missing"),
        ({"environments": []}, "config: environments: nothing says where episodes happen"),
        ({"sampling": {"temperature": 0}}, "config: sampling.temperature: 0 makes all episodes of a group alike"),
        ({"seed": 10**30}, "config.seed: expected a whole number"),
        ({"limits": {"steps": 2**40}}, "config.limits.steps: expected a number of at most"),
        ({"name": "a\0b"}, "text may not hold the NUL character"),
    ],
)  # fmt: skip
async def test_mistakes_in_a_config_are_told_line_by_line(
    gateway: Gateway, change: dict[str, Any], line: str
) -> None:
    async with gateway.ann.post("/v1/runs", json={"config": CONFIG | change}) as response:
        assert response.status == 422
        problem = await _problem(response)
    assert problem.code == "invalid_config"
    assert len(problem.details) == 1
    assert problem.details[0].startswith(line)


async def test_a_backslash_is_no_nul_character(gateway: Gateway) -> None:
    name = r"\u0000 \\u0000"
    async with gateway.ann.post("/v1/runs", json={"config": {**CONFIG, "name": name}}) as response:
        assert response.status == 201
        assert (await response.json())["name"] == name


async def test_all_mistakes_are_told_at_once(gateway: Gateway) -> None:
    config = {**CONFIG, "seed": -1, "modle": {}, "limits": {"steps": 0.5}}
    async with gateway.ann.post("/v1/runs", json={"config": config}) as response:
        problem = await _problem(response)
    assert len(problem.details) == 3
    assert "config.modle: unknown key; did you mean model?" in problem.details


async def test_thousands_of_mistakes_are_counted_and_the_first_are_told(gateway: Gateway) -> None:
    config = {**CONFIG, **{f"rubbish_{i}": 1 for i in range(8000)}}
    async with gateway.ann.post("/v1/runs", json={"config": config}) as response:
        assert response.status == 422
        problem = await _problem(response)
    assert problem.message == "The config has 8000 mistakes."
    assert problem.details[0].startswith("config.rubbish_0: unknown key")
    assert problem.details[MOST_TOLD:] == (f"and {8000 - MOST_TOLD} more",)


@pytest.mark.parametrize("text", [b"{", b"\xff", b'{"config": NaN}', b"[" * 100_000])
async def test_what_is_not_json_is_400(gateway: Gateway, text: bytes) -> None:
    async with gateway.ann.post("/v1/runs", data=text) as response:
        assert response.status == 400
        assert (await _problem(response)).code == "malformed_json"


@pytest.mark.parametrize("text", [b"", b"{}", b"[]", b'"x"', b"null"])
async def test_json_of_another_shape_is_422(gateway: Gateway, text: bytes) -> None:
    async with gateway.ann.post("/v1/runs", data=text) as response:
        assert response.status == 422
        assert (await _problem(response)).details


async def test_a_body_that_is_too_large_is_413(gateway: Gateway) -> None:
    body = json.dumps({"config": {**CONFIG, "name": "x" * 2**20}}).encode()
    async with gateway.ann.post("/v1/runs", data=io.BytesIO(body)) as response:
        assert response.status == 413
        assert (await _problem(response)).code == "request_entity_too_large"


async def test_runs_are_listed_newest_first_and_by_state(gateway: Gateway) -> None:
    runs = [await gateway.submit() for _ in range(3)]
    await _set_state(gateway, runs[1], RunState.RUNNING)
    assert await _listed(gateway, "") == runs[::-1]
    assert await _listed(gateway, "?limit=2") == runs[:0:-1]
    assert await _listed(gateway, "?state=running") == [runs[1]]
    assert await _listed(gateway, "?state=failed") == []


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ("limit=0", "limit: expected a number of at least 1"),
        ("limit=many", "limit: expected a whole number"),
        ("state=done", "state: expected 'queued', 'starting', 'running'"),
        ("stat=running", "stat: unknown key; did you mean state?"),
    ],
)
async def test_a_wrong_query_is_422(gateway: Gateway, query: str, line: str) -> None:
    async with gateway.ann.get(f"/v1/runs?{query}") as response:
        assert response.status == 422
        problem = await _problem(response)
    assert problem.code == "invalid_query"
    assert problem.details[0].startswith(line)


async def test_a_run_is_shown_as_it_is(gateway: Gateway, tmp_path: Path) -> None:
    run = await gateway.submit()
    await _set_state(gateway, run, RunState.COMPLETED, result={"reward_after": 0.9}, ended_s=5.0)
    async with gateway.ann.get(f"/v1/runs/{run}") as response:
        assert response.status == 200
        view = RunView.model_validate_json(await response.read())
    assert (view.state, view.ended_s) == (RunState.COMPLETED, 5.0)
    assert view.result is not None
    assert view.result.reward_after == 0.9
    assert view.result.log_dir == str(tmp_path / "runs" / folder_name("guessing", run))


@pytest.mark.parametrize("path", ["/v1/runs/{}", "/v1/runs/{}/events", "/v1/runs/{}/cancel"])
@pytest.mark.parametrize("who", ["ann", "bob"])
async def test_a_run_that_is_not_there_or_not_yours_is_404(
    gateway: Gateway, path: str, who: str
) -> None:
    run = await gateway.submit() if who == "bob" else "run_0"
    client = gateway.bob if who == "bob" else gateway.ann
    method = "POST" if path.endswith("cancel") else "GET"
    async with client.request(method, path.format(run)) as response:
        assert response.status == 404
        assert (await _problem(response)).code == "no_such_run"


NO_IDS = ["%00", "run_%00", "%ED%A0%80", "run.0", "x" * 7000]


@pytest.mark.parametrize("name", NO_IDS, ids=range(len(NO_IDS)))
async def test_what_can_not_be_an_id_is_404(gateway: Gateway, name: str) -> None:
    """PostgreSQL refuses text that holds NUL."""
    run = f"/v1/runs/{name}"
    for method, path in [
        ("GET", run),
        ("GET", f"{run}/events"),
        ("GET", f"{run}/trajectories"),
        ("GET", f"{run}/checkpoints"),
        ("POST", f"{run}/cancel"),
        ("POST", f"{run}/delete"),
        ("GET", f"/v1/models/{name}"),
        ("GET", f"/v1/models/{name}@1"),
    ]:
        async with gateway.ann.request(method, URL(gateway.url + path, encoded=True)) as response:
            assert (path, response.status) == (path, 404)


async def test_owners_of_many_runs_are_asked_for_in_parts(gateway: Gateway) -> None:
    run = await gateway.submit()
    names = {run, "run_\0", *(f"run_{i}" for i in range(70_000))}
    assert await gateway.services.runs.owned(Viewer("ann"), names) == {run}
    assert await gateway.services.runs.owned(Viewer("bob"), names) == set()


async def test_another_owners_runs_are_not_listed(gateway: Gateway) -> None:
    await gateway.submit()
    async with gateway.bob.get("/v1/runs") as response:
        assert RunList.model_validate_json(await response.read()).runs == ()


async def test_cancelling_is_asked_for_once_and_may_be_asked_again(gateway: Gateway) -> None:
    run = await gateway.submit()
    for _ in range(2):
        async with gateway.ann.post(f"/v1/runs/{run}/cancel") as response:
            assert response.status == 200
            assert (await response.json())["id"] == run
    assert gateway.follower.runs == [run] * 2
    row = await gateway.store.transact(lambda session: session.exec(select(Run)).one())
    assert row.is_cancel_requested
    await _set_state(gateway, run, RunState.CANCELLED)
    async with gateway.ann.post(f"/v1/runs/{run}/cancel") as response:
        assert response.status == 200
        assert (await response.json())["state"] == "cancelled"


@pytest.mark.parametrize("state", [RunState.COMPLETED, RunState.FAILED])
async def test_a_run_that_has_ended_can_not_be_cancelled(gateway: Gateway, state: RunState) -> None:
    run = await gateway.submit()
    await _set_state(gateway, run, state)
    async with gateway.ann.post(f"/v1/runs/{run}/cancel") as response:
        assert response.status == 409
        problem = await _problem(response)
    assert problem.code == "run_has_ended"
    assert state in problem.message


async def test_a_cancellation_takes_no_body(gateway: Gateway) -> None:
    run = await gateway.submit()
    async with gateway.ann.post(f"/v1/runs/{run}/cancel", json={"now": True}) as response:
        assert response.status == 422


async def _problem(response: Any) -> Problem:
    return Problem.model_validate_json(await response.read())


async def _listed(gateway: Gateway, query: str) -> list[str]:
    async with gateway.ann.get(f"/v1/runs{query}") as response:
        return [run.id for run in RunList.model_validate_json(await response.read()).runs]


async def _set_state(gateway: Gateway, run: str, state: RunState, **values: Any) -> None:
    def change(session: Session) -> None:
        session.exec(update(Run).where(col(Run.id) == run).values(state=state, **values))

    await gateway.store.transact(change)
