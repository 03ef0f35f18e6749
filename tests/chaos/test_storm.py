"""A whole deployment in a storm of faults: nothing lost, nothing doubled, nothing left behind."""

import shutil

import pytest
from tests.chaos.__main__ import GAP_S, storm
from tests.chaos.plan import LEAST_FAULTS, FaultKind
from tests.chaos.site import new_home
from tests.support.patience import whole_deployment

SEED = 1


@pytest.mark.storm
@whole_deployment
async def test_a_storm() -> None:
    home = new_home()
    print(f"logs lie in {home}")
    report = await storm(home, LEAST_FAULTS, SEED, gap_s=GAP_S)
    print(report)
    assert set(report.faults) == {kind.value for kind in FaultKind}
    assert report.faults.total() == LEAST_FAULTS == 60
    shutil.rmtree(home)
