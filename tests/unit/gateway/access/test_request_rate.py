"""The rate of requests: a burst passes, then as many as the rate allows; owners do not feel each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.budgets.request_rate import PRUNED_AT, RequestRate, TooManyRequests


class Clock:
    def __init__(self) -> None:
        self.at_s = 0.0

    def __call__(self) -> float:
        return self.at_s


def passes(rate: RequestRate, owner: str = "ann") -> bool:
    try:
        rate.count(owner)
    except TooManyRequests:
        return False
    return True


@given(
    waits_s=st.lists(st.floats(0, 2), max_size=200),
    per_s=st.floats(0.5, 50),
    burst=st.integers(1, 20),
)
def test_no_more_pass_than_the_rate_and_a_burst(
    waits_s: list[float], per_s: float, burst: int
) -> None:
    clock = Clock()
    rate, n_passed = RequestRate(per_s=per_s, burst=burst, now_s=clock), 0
    for wait_s in waits_s:
        clock.at_s += wait_s
        n_passed += passes(rate)
        assert n_passed <= burst + clock.at_s * per_s + 1e-6


@given(per_s=st.floats(0.5, 1000), burst=st.integers(1, 100))
def test_whoever_waits_as_long_as_told_passes(per_s: float, burst: int) -> None:
    clock = Clock()
    rate = RequestRate(per_s=per_s, burst=burst, now_s=clock)
    assert [passes(rate) for _ in range(burst)] == [True] * burst
    with pytest.raises(TooManyRequests, match="requests a second") as refused:
        rate.count("ann")
    clock.at_s += refused.value.wait_s
    assert passes(rate)


def test_by_default_batches_of_tinkers_clients_pass_at_once() -> None:
    """4,096 samples each, by two clients of an owner: each is asked for, and its outcome fetched."""
    options = BudgetOptions()
    per_s, burst = options.requests_per_s_per_owner, options.request_burst_per_owner
    rate = RequestRate(per_s=per_s, burst=burst, now_s=Clock())
    assert all(passes(rate) for _ in range(2 * 2 * 4096))
    assert not all(passes(rate) for _ in range(burst))


def test_owners_do_not_feel_each_other() -> None:
    rate = RequestRate(per_s=1.0, burst=1, now_s=Clock())
    assert [passes(rate, name) for name in ("ann", "ann", "bob")] == [True, False, True]


def test_who_has_long_been_quiet_is_forgotten() -> None:
    clock = Clock()
    rate = RequestRate(per_s=1.0, burst=1, now_s=clock)
    for number in range(PRUNED_AT):
        rate.count(str(number))
    clock.at_s = 10.0
    rate.count("the last")
    assert vars(rate)["_due_s"].keys() == {"the last"}


def test_an_owner_sees_what_is_in_use_of_a_burst() -> None:
    clock = Clock()
    rate = RequestRate(per_s=2.0, burst=4, now_s=clock)
    assert [passes(rate) for _ in range(5)] == [True] * 4 + [False]
    assert passes(rate, "bob")
    clock.at_s += 1.0
    view = rate.view("requests", "ann")
    assert view.name == "requests at once, beside 2 a second"
    assert (view.used, view.limit, view.total_used, view.n_refused) == (2, 4, 2, 1)
    own = rate.view("requests", "ann", 20.0)
    assert own.limit == 40
