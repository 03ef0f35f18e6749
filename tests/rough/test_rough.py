"""A few faults from outside, and the audit of what everybody can see afterwards."""

from pathlib import Path

import pytest
from tests.rough.__main__ import rough
from tests.support.patience import whole_deployment
from tests.support.private_rabbit import PrivateRabbit

N_FAULTS = 10


@pytest.mark.storm
@whole_deployment
@pytest.mark.parametrize(
    "store", [pytest.param("sqlite", marks=pytest.mark.thorough), "postgresql"]
)
async def test_the_public_record_after_faults(
    tmp_path: Path, doomed_rabbit: PrivateRabbit, request: pytest.FixtureRequest, store: str
) -> None:
    url = request.getfixturevalue("private_postgres") if store == "postgresql" else None
    faults, found = await rough(tmp_path, url, doomed_rabbit, n_faults=N_FAULTS, seed=1, gap_s=3.0)
    print(faults.done, found)
    assert faults.done.total() == N_FAULTS
