"""Plans of faults."""

from tests.chaos.plan import LEAST_FAULTS, FaultKind, make_plan

GAP_S = 2.5


def test_a_plan_holds_every_kind_and_comes_again() -> None:
    plan = make_plan(7, LEAST_FAULTS, gap_s=GAP_S)
    assert len(plan) == LEAST_FAULTS
    assert {fault.kind for fault in plan} == set(FaultKind)
    assert plan == make_plan(7, LEAST_FAULTS, gap_s=GAP_S)
    assert plan != make_plan(8, LEAST_FAULTS, gap_s=GAP_S)


def test_faults_come_in_order_and_one_gap_apart_in_the_mean() -> None:
    times_s = [fault.at_s for fault in make_plan(1, 1000, gap_s=GAP_S)]
    assert times_s == sorted(times_s)
    assert times_s[0] >= 0 and times_s[-1] <= 1000 * GAP_S
