"""Runs that end with their client: how long they are kept, and which are left alone."""

from collections.abc import Callable

import pytest
from sqlmodel import Session
from tests.support.brokers import eventually
from tests.support.gateway import CONFIG, Gateway

import warren
from warren import ConfigurationError, GatewayError
from warren_gateway.runs.client_leases import end_lapsed
from warren_gateway.stop_request import StopRequest
from warren_gateway.store.tables import Run
from warren_schemas.events import RunState
from warren_schemas.ids import RunId

LEASE_S = 60.0
Change = Callable[[Run], None]


def silent(row: Run) -> None:
    """Its client has said nothing for longer than it may."""
    row.client_until_s = 1.0


def at_work(row: Run) -> None:
    silent(row)
    row.state = RunState.RUNNING


def there(row: Run) -> None:
    """As it is."""


def paused(row: Run) -> None:
    silent(row)
    row.state = RunState.PAUSED


def finishing(row: Run) -> None:
    at_work(row)
    row.stop_request = StopRequest.FINISH


async def alter(gateway: Gateway, run: RunId, change: Change) -> None:
    await gateway.store.transact(lambda session: change(session.get_one(Run, run)))


async def row_of(gateway: Gateway, run: RunId) -> tuple[str | None, bool]:
    def look(session: Session) -> tuple[str | None, bool]:
        row = session.get_one(Run, run)
        return row.stop_request, row.is_cancel_requested

    return await gateway.store.transact(look)


async def submitted(gateway: Gateway) -> RunId:
    return await gateway.submit(on_disconnect="cancel", client_lease_s=LEASE_S)


@pytest.mark.parametrize(
    ("change", "left_alone"),
    [(at_work, False), (silent, False), (paused, True), (finishing, True), (there, True)],
    ids=["at work", "queued", "paused", "finishing", "client is there"],
)
async def test_a_run_whose_client_is_silent_is_saved_and_cancelled(
    gateway: Gateway, change: Change, left_alone: bool
) -> None:
    run = await submitted(gateway)
    await alter(gateway, run, change)
    before = await row_of(gateway, run)

    ended = await gateway.store.transact(lambda session: end_lapsed(session, LEASE_S))

    assert list(ended) == ([] if left_alone else [run])
    expected = before if left_alone else (StopRequest.CLIENT_GONE, change is silent)
    assert await row_of(gateway, run) == expected
    assert not await gateway.store.transact(lambda session: end_lapsed(session, LEASE_S))


async def test_a_gateway_that_was_away_gives_clients_a_lease_to_be_heard(gateway: Gateway) -> None:
    run = await submitted(gateway)
    await alter(gateway, run, at_work)
    assert not await gateway.store.transact(lambda session: end_lapsed(session, LEASE_S - 1.0))
    assert await row_of(gateway, run) == (None, False)


async def test_a_run_without_a_lease_is_never_ended_and_renews_none(gateway: Gateway) -> None:
    run = await gateway.submit()
    async with gateway.ann.post(f"/v1/runs/{run}/renew") as response:
        assert response.status == 409
        assert "goes on without a client" in (await response.json())["message"]
    assert not await gateway.store.transact(lambda session: end_lapsed(session, 1e9))


async def test_a_renewal_counts_from_now_and_is_not_audited(gateway: Gateway) -> None:
    run = await submitted(gateway)
    await alter(gateway, run, at_work)
    async with gateway.ann.post(f"/v1/runs/{run}/renew") as response:
        assert (response.status, (await response.json())["state"]) == (200, "running")
    assert not await gateway.store.transact(lambda session: end_lapsed(session, LEASE_S))
    assert "renew_run" not in {one.action for one in await gateway.services.audit.newest(None, 100)}


async def test_the_client_renews_by_itself_until_it_is_closed(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await client.train(CONFIG, on_disconnect="cancel", client_lease_s=2.0)
    first_s = run.view.client_until_s or 0.0
    assert (run.view.on_disconnect, run.view.client_lease_s) == ("cancel", 2.0)

    async def is_renewed() -> bool:
        return ((await run.refresh()).client_until_s or 0.0) > first_s

    await eventually(is_renewed)


async def test_a_run_may_be_let_go_of_its_client(gateway: Gateway, client: warren.Client) -> None:
    run = await client.train(CONFIG, on_disconnect="cancel")
    assert run.view.client_lease_s == 60.0
    view = await run.set(on_disconnect="detach")
    assert (view.on_disconnect, view.client_lease_s, view.client_until_s) == ("detach", None, None)


async def test_a_lease_without_an_effect_is_refused(
    gateway: Gateway, client: warren.Client
) -> None:
    with pytest.raises(ConfigurationError, match="submitted") as refused:
        await client.train(CONFIG, client_lease_s=30.0)
    assert "on_disconnect: cancel" in str(refused.value.details)
    body = {"config": CONFIG, "client_lease_s": 30.0}
    async with gateway.ann.post("/v1/runs", json=body) as response:
        assert response.status == 422


def _complete(row: Run) -> None:
    row.state = RunState.COMPLETED


async def test_the_lease_of_a_run_that_is_over_is_not_renewed(
    gateway: Gateway, client: warren.Client
) -> None:
    run = await submitted(gateway)
    await alter(gateway, run, _complete)
    async with gateway.ann.post(f"/v1/runs/{run}/renew") as response:
        assert response.status == 409
    with pytest.raises(GatewayError, match="has ended"):
        await (await client.run(run)).set(on_disconnect="detach")
