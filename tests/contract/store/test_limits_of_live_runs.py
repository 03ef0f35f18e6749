"""Limits and priority of a run that goes on: changed by the rules of a submission, or refused with the reason."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from sqlalchemy import update
from sqlmodel import col
from tests.contract.store.test_verbs import ask, row_of, set_row
from tests.support.gateway import CONFIG, Gateway

from warren_gateway.coordinator import run_leases
from warren_gateway.coordinator.run_leases import LeaseLost, LimitsChanged
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Run
from warren_schemas.events import RunState
from warren_schemas.ids import RunId

KEY = "limits-key"


@pytest.fixture
async def store(any_store_url: str) -> AsyncGenerator[Store]:
    """Everything here holds on both databases."""
    store = await Store.open(any_store_url)
    yield store
    await store.close()


async def begun(gateway: Gateway, *, n_taken: int = 20, **limits: Any) -> RunId:
    config = {**CONFIG, "limits": {"steps": 100, **limits}}
    run = await gateway.submit(config=config, idempotency_key=KEY)
    progress = {"learning": {"steps": {"n_trained": n_taken}}}
    await set_row(gateway, run, state=RunState.RUNNING, started_s=2.0, progress=progress)
    return run


async def test_limits_and_priority_are_set_in_one_go_and_what_is_not_named_stays(
    gateway: Gateway,
) -> None:
    run = await begun(gateway, in_flight=77)
    limits = {"steps": 400, "stop_at_reward": 0.5, "stop_on": ["exploding"]}
    status, view = await ask(gateway, run, "set", limits=limits, priority=-3)
    assert (status, view["n_steps"], view["priority"]) == (200, 400, -3)
    in_force = view["config"]["limits"]
    assert {key: in_force[key] for key in limits} == limits
    assert in_force["in_flight"] == 77
    row = await row_of(gateway, run)
    assert (row.limits_number, row.config["limits"]["steps"]) == (1, 400)

    assert (await ask(gateway, run, "set", limits={"stop_at_reward": None}))[0] == 200
    assert (await row_of(gateway, run)).config["limits"]["stop_at_reward"] is None


async def test_what_changes_nothing_is_no_change(gateway: Gateway) -> None:
    run = await begun(gateway)
    assert (await ask(gateway, run, "set", limits={"steps": 100}))[0] == 200
    row = await row_of(gateway, run)
    assert (row.limits_number, row.submitted) == (0, None)


MISTAKES = [
    ({"stepz": 400}, "limits.stepz: unknown key; did you mean steps?"),
    ({"steps": "many"}, "limits.steps: "),
    ({"steps": 2_000_000_000}, "limits.steps: "),
    ({"steps": 0}, "limits.steps: 0 is for runs that train nothing"),
    ({"steps": 30}, "evaluation.every_steps is 40 and limits.steps 30"),
    ({"episode_attempts": 5}, "limits.episode_attempts: stays as it was submitted"),
    ({"in_flight": 0}, "limits.in_flight: "),
]


@pytest.mark.parametrize(("limits", "told"), MISTAKES)
async def test_a_mistake_is_told_as_in_a_submission_and_changes_nothing(
    gateway: Gateway, limits: dict[str, Any], told: str
) -> None:
    config = {**CONFIG, "evaluation": {"every_steps": 40, "episodes": 8}}
    run = await gateway.submit(config=config)
    before = (await row_of(gateway, run)).model_dump()
    status, problem = await ask(gateway, run, "set", limits=limits, priority=-1)
    assert (status, problem["code"]) == (422, "invalid_config")
    assert told in "\n".join(problem["details"])
    assert (await row_of(gateway, run)).model_dump() == before


async def test_a_body_that_sets_nothing_is_a_mistake(gateway: Gateway) -> None:
    status, problem = await ask(gateway, await gateway.submit(), "set")
    assert status == 422
    assert "give `limits`, `priority` or `on_disconnect`" in problem["details"][0]


TOO_LATE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"steps": 19}, "has taken 20 steps already"),
    ({"state": RunState.FINISHING}, {"steps": 500}, "trains no more, so limits.steps"),
    ({"state": RunState.FINISHING}, {"stop_at_reward": 0.1}, "limits.stop_at_reward"),
    ({"stop_request": "finish"}, {"steps": 500}, "trains no more"),
    ({"is_cancel_requested": True}, {"in_flight": 5}, "is being cancelled"),
    ({"stop_request": "save_and_cancel"}, {"in_flight": 5}, "is being cancelled"),
    ({"state": RunState.FAILED}, {"in_flight": 5}, "has ended already"),
]


@pytest.mark.parametrize(("row", "limits", "told"), TOO_LATE)
async def test_what_comes_too_late_is_409_and_changes_nothing(
    gateway: Gateway, row: dict[str, Any], limits: dict[str, Any], told: str
) -> None:
    run = await begun(gateway)
    if row:
        await set_row(gateway, run, **row)
    status, problem = await ask(gateway, run, "set", limits=limits)
    assert status == 409
    assert told in problem["message"]
    assert (await row_of(gateway, run)).limits_number == 0


@pytest.mark.parametrize("limits", [{"steps": 20}, {"in_flight": 5}])
async def test_what_is_just_in_time_is_done(gateway: Gateway, limits: dict[str, Any]) -> None:
    """All steps that are wanted are taken; an episode may still start in the last evaluation."""
    run = await begun(gateway)
    if "steps" not in limits:
        await set_row(gateway, run, state=RunState.FINISHING)
    assert (await ask(gateway, run, "set", limits=limits))[0] == 200


async def test_a_run_that_only_evaluates_gets_no_steps(gateway: Gateway) -> None:
    config = {**CONFIG, "evaluation": {"episodes": 8}, "limits": {"steps": 0}}
    run = await gateway.submit(config=config)
    status, problem = await ask(gateway, run, "set", limits={"steps": 5})
    assert status in (409, 422)
    assert "takes no steps of reinforcement learning" in problem["message"]


async def test_a_submission_that_comes_again_is_known_by_what_was_submitted(
    gateway: Gateway,
) -> None:
    run = await begun(gateway)
    assert (await ask(gateway, run, "set", limits={"steps": 400}))[0] == 200
    assert (await ask(gateway, run, "set", limits={"steps": 500}))[0] == 200
    body = {"config": {**CONFIG, "limits": {"steps": 100}}, "idempotency_key": KEY}
    async with gateway.ann.post("/v1/runs", json=body) as response:
        assert (response.status, (await response.json())["id"]) == (200, run)
    body["config"] = {**CONFIG, "limits": {"steps": 500}}
    async with gateway.ann.post("/v1/runs", json=body) as response:
        assert (response.status, (await response.json())["code"]) == (409, "idempotency_key_reused")


async def test_a_retry_goes_on_with_the_limits_that_were_set_and_is_the_same_when_asked_again(
    gateway: Gateway,
) -> None:
    run = await begun(gateway)
    assert (await ask(gateway, run, "set", limits={"steps": 400}))[0] == 200
    await set_row(gateway, run, state=RunState.FAILED)
    status, successor = await ask(gateway, run, "retry")
    assert (status, successor["n_steps"]) == (201, 400)
    assert (await ask(gateway, successor["id"], "set", limits={"steps": 450}))[0] == 200
    status, again = await ask(gateway, run, "retry")
    assert (status, again["id"], again["n_steps"]) == (200, successor["id"], 450)


async def test_nobody_sets_limits_of_anothers_run(gateway: Gateway) -> None:
    run = await begun(gateway)
    body = {"limits": {"steps": 400}}
    async with gateway.bob.post(f"/v1/runs/{run}/set", json=body) as response:
        assert response.status == 404


async def fence(store: Store, run: RunId, revision: int, limits_number: int | None) -> bool:
    return await store.transact(
        lambda session: run_leases.fence(
            session, run, epoch=0, revision=revision, limits_number=limits_number
        )
    )


async def test_a_change_that_follows_from_older_limits_is_not_committed(gateway: Gateway) -> None:
    run = await begun(gateway)
    assert await fence(gateway.store, run, 1, 0)
    assert (await ask(gateway, run, "set", limits={"steps": 400}))[0] == 200
    with pytest.raises(LimitsChanged):
        await fence(gateway.store, run, 2, 0)
    assert not await fence(gateway.store, run, 1, 0), "it was committed before, and not heard of"
    assert await fence(gateway.store, run, 2, None), "what doesn't depend on limits goes on"
    assert await fence(gateway.store, run, 3, 1)

    change = update(Run).where(col(Run.id) == run).values(epoch=7)
    await gateway.store.transact(lambda session: session.exec(change))
    with pytest.raises(LeaseLost):
        await fence(gateway.store, run, 4, 1)
