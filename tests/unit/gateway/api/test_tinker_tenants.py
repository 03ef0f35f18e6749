"""Names of one tenant of the Tinker protocol in the hands of another: as if there were nothing of the name.

What is answered to another tenant's name equals what is answered to a name of nobody, and nothing of the tenant's
moves.
"""

from pathlib import Path

import pytest
from tests.support.gateway import Gateway
from tests.support.tinker_attacks import (
    ATTACKED,
    Requests,
    alike,
    bodies,
    name_of,
    places_of,
    urls,
)
from tests.support.tinker_tenants import FOLDER, SECRET, Tenant, everything, two_tenants

from warren_gateway.api.route import Route

NO_SAMPLER = 503
"""Accepted, as far as it can be where nothing answers samples."""


@pytest.fixture
async def tenants(gateway: Gateway, tmp_path: Path) -> tuple[Tenant, Tenant]:
    return await two_tenants(gateway, tmp_path)


@pytest.mark.parametrize("route", ATTACKED, ids=name_of)
async def test_a_name_of_another_tenants_is_nobodys_name(
    gateway: Gateway, tenants: tuple[Tenant, Tenant], route: Route
) -> None:
    ann, bob = tenants
    decoy, sent = ann.decoy(), Requests(gateway.bob, gateway.url, bob)
    before = await gateway.store.transact(lambda s: everything(s, ann, bob))
    for place in places_of(route, bob):
        for kind, stolen in ann.names.items():
            told = await sent.send(route, *place.request(sent, stolen))
            otherwise = await sent.send(route, *place.request(sent, decoy.names[kind]))
            assert alike(told) == alike(otherwise), f"{place} with {kind}"
            assert SECRET not in told.text and FOLDER not in told.text, f"{place} with {kind}"
    after = await gateway.store.transact(lambda s: everything(s, ann, bob))
    assert after == before
    asked = await gateway.store.transact(lambda s: everything(s, bob, decoy))
    assert not [row for row in asked if SECRET in row or FOLDER in row]


@pytest.mark.parametrize("route", ATTACKED, ids=name_of)
async def test_the_same_requests_lead_a_tenant_to_what_is_their_own(
    gateway: Gateway, tenants: tuple[Tenant, Tenant], route: Route
) -> None:
    ann, bob = tenants
    sent = Requests(gateway.bob, gateway.url, bob)
    told = [
        await sent.send(route, f"{before}{name}{after}", sent.body(kind, route))
        for kind in bodies(route)
        for before, after, name, _ in urls(route, bob)
    ]
    assert any(answer.status < 400 or answer.status == NO_SAMPLER for answer in told), told
    hidden = {SECRET, FOLDER, ann.session, ann.run, ann.model, ann.op}
    assert not [answer for answer in told if any(name in answer.text for name in hidden)]
