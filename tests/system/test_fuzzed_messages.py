"""The short form of `make fuzz`: wrong messages to a deployment that runs, and a run afterwards."""

import pytest
from tests.fuzz.messages import fuzz


@pytest.mark.storm
async def test_fuzzed_messages_are_settled_and_a_run_completes_afterwards() -> None:
    told = await fuzz(1_000, seed=1)
    assert told.sent.total() >= 1_000
    assert not told.left
    assert not told.died
    assert told.n_dead >= told.n_malformed > 0
    assert (told.during, told.outcome, told.replayed) == ("running", "completed", "completed")
