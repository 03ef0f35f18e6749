"""Users and keys over the SDK, against the real app; what goes on for a key ends with it; the audit log."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator

import aiohttp
import pytest
import pytest_asyncio
from sqlmodel import Session
from tests.support.gateway import CONFIG, Gateway

import warren
from warren import AuthenticationError, ConfigurationError, GatewayError, KeyScope, NotFound
from warren_gateway.access.key import Key
from warren_gateway.access.rows import LOCAL_USER
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.store.tables import Run
from warren_schemas.events import RunState


@pytest_asyncio.fixture
async def admin(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    key = Key.new()
    await gateway.services.keys.add(key, LOCAL_USER)
    async with warren.connect(gateway.url, str(key)) as client:
        yield client


async def test_a_user_from_their_first_key_to_their_last(
    gateway: Gateway, admin: warren.Client
) -> None:
    added = await admin.access.add_user("carla")
    async with warren.connect(gateway.url, added.first_key.key) as carla:
        assert (await carla.access.whoami()).user == "carla"
        second = await carla.access.create_key("laptop", scopes=["read"], lifetime_s=3600.0)
        assert [key.name for key in await carla.access.keys()] == ["laptop", "first key"]
        rotated = await carla.access.rotate_key(second.view.id)
        assert (await carla.access.revoke_key(rotated.view.id)).revoked_s is not None
        with pytest.raises(AuthenticationError, match="scope admin") as refused:
            await carla.access.users()
        assert "for admins" in (refused.value.hint or "") and "keys create" not in str(refused)
        await admin.access.disable_user("carla")
        with pytest.raises(AuthenticationError, match="carla is disabled"):
            await carla.runs()
        await admin.access.enable_user("carla")
        assert await carla.runs() == []
        await admin.access.remove_user("carla")
        with pytest.raises(AuthenticationError, match="was revoked"):
            await carla.runs()
    assert "carla" not in {user.name for user in await admin.access.users()}


async def test_a_key_may_be_named_by_the_whole_of_it_which_is_written_nowhere(
    admin: warren.Client,
) -> None:
    made = await admin.access.create_key("laptop")
    assert (await admin.access.revoke_key(made.key)).id == made.view.id
    path = (await admin.access.audit())[0].path
    assert path == f"/v1/keys/wk_{made.view.id}_…/revoke"


async def test_mistakes_are_told_in_a_sentence(admin: warren.Client) -> None:
    with pytest.raises(ConfigurationError) as refused:
        await admin.access.add_user("Carla B")
    assert refused.value.details[0].startswith("name: ")
    with pytest.raises(ConfigurationError):
        await admin.access.create_key(scopes=["everything"])
    await admin.access.add_user("carla")
    with pytest.raises(GatewayError, match="a user carla already"):
        await admin.access.add_user("carla")
    with pytest.raises(NotFound, match="no user nobody"):
        await admin.access.disable_user("nobody")
    with pytest.raises(NotFound, match="no key abc"):
        await admin.access.revoke_key("abc")
    with pytest.raises(NotFound, match="no user nobody"):
        await admin.access.create_key(user="nobody")
    with pytest.raises(AuthenticationError, match="carla is no admin"):
        await admin.access.create_key(user="carla", scopes=[KeyScope.ADMIN])


@pytest.mark.slow
@pytest.mark.parametrize("path", ["events", "metrics?follow=true", "trajectories?follow=true"])
async def test_a_stream_ends_when_its_key_is_revoked(
    gateway: Gateway, admin: warren.Client, path: str
) -> None:
    run, watching = await gateway.submit(), asyncio.create_task(gateway.services.callers.run())
    made = await admin.access.create_key(user="ann")
    headers = {"Authorization": f"Bearer {made.key}"}
    async with gateway.nobody.get(f"/v1/runs/{run}/{path}", headers=headers) as response:
        assert response.status == 200
        await admin.access.revoke_key(made.view.id)
        with contextlib.suppress(aiohttp.ClientError):  # what isn't whole is cut off
            await response.read()
    async with gateway.nobody.get(f"/v1/runs/{run}/{path}", headers=headers) as response:
        assert response.status == 401
    watching.cancel()


@pytest.mark.parametrize("budgets", [BudgetOptions(runs_queued_per_owner=2)])
async def test_a_user_has_no_more_queued_runs_than_may_be(gateway: Gateway) -> None:
    first, _ = await gateway.submit(), await gateway.submit()
    body = {"config": CONFIG}
    async with gateway.ann.post("/v1/runs", json=body) as response:
        assert response.status == 429
        assert "2 queued runs" in (await response.json())["message"]
    async with gateway.bob.post("/v1/runs", json=body) as response:
        assert response.status == 201
    await gateway.store.transact(lambda session: _end(session, first))
    async with gateway.ann.post("/v1/runs", json=body) as response:
        assert response.status == 201


@pytest.mark.parametrize(
    "budgets", [BudgetOptions(requests_per_s_per_owner=1e-2, request_burst_per_owner=2)]
)
async def test_a_user_who_asks_too_often_is_told_to_wait(gateway: Gateway) -> None:
    for expected in (200, 200, 429):
        async with gateway.ann.get("/v1/budgets") as response:
            assert response.status == expected
    assert 90 <= int(response.headers["Retry-After"]) <= 100
    async with gateway.bob.get("/v1/budgets") as response:
        assert response.status == 200


def _end(session: Session, run: str) -> None:
    row = session.get(Run, run)
    assert row is not None
    row.state = RunState.COMPLETED.value


async def test_whatever_was_to_change_something_is_in_the_audit_log(
    gateway: Gateway, admin: warren.Client
) -> None:
    run = await gateway.submit()
    async with gateway.bob.post(f"/v1/runs/{run}/cancel") as response:
        assert response.status == 404
    await (await admin.run(run)).cancel()
    async with gateway.ann.get("/v1/runs") as response:
        assert response.status == 200
    entries = [(entry.user, entry.action, entry.status) for entry in await admin.access.audit()]
    assert entries == [
        ("local", "cancel_run", 200),
        ("bob", "cancel_run", 404),
        ("ann", "submit_run", 201),
    ]
    assert [entry.user for entry in await admin.access.audit(user="bob")] == ["bob"]
