"""Wrong keys: an address that sends many is told to wait, and a right key from there passes."""

import pytest
from tests.support.gateway import Gateway

from warren_gateway.access.key import Key
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.budgets.wrong_keys import TooManyWrongKeys, WrongKeys

PATH = "/v1/budgets"


@pytest.mark.parametrize(
    "budgets", [BudgetOptions(wrong_keys_per_s_per_address=1e-3, wrong_key_burst_per_address=2)]
)
async def test_wrong_keys_are_not_free_and_lock_nobody_out(gateway: Gateway) -> None:
    for expected in (401, 401, 429, 429):
        wrong = {"Authorization": f"Bearer {Key.new()}"}
        async with gateway.ann.get(PATH, headers=wrong) as response:
            assert response.status == expected
    assert 900 <= int(response.headers["Retry-After"]) <= 1000
    async with gateway.ann.get(PATH) as response:
        assert response.status == 200
        views = {view["name"]: view for view in (await response.json())["budgets"]}
    view = views["wrong keys from your address at once, beside 0.001 a second"]
    assert (view["used"], view["limit"], view["n_refused"]) == (2, 2, 2)
    assert views["requests at once, beside 2000 a second"]["used"] == 1


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::1%eth1", True),
        (None, "", True),
    ],
)
def test_whose_address_it_is(one: str | None, other: str | None, is_same: bool) -> None:
    wrong_keys = WrongKeys(per_s=1e-3, burst=1)
    wrong_keys.count(one)
    if not is_same:
        wrong_keys.count(other)
        return
    with pytest.raises(TooManyWrongKeys):
        wrong_keys.count(other)
