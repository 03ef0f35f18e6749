"""An engine's time is divided among the turns that it serves at once."""

import pytest

from warren_gpu_worker.sampler.child.engine_time import EngineTime


def test_the_parts_of_all_turns_add_up_to_the_time_of_the_engine() -> None:
    time = EngineTime()
    before = {"first": time.per_turn_s}
    time.add(1.0, 1)
    before["second"] = time.per_turn_s
    time.add(3.0, 2)
    first_s = time.per_turn_s - before["first"]
    time.add(0.5, 1)
    second_s = time.per_turn_s - before["second"]
    assert (first_s, second_s) == (2.5, 2.0)
    assert first_s + second_s == pytest.approx(1.0 + 3.0 + 0.5)
