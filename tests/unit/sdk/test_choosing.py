"""Which run a name means."""

import logging

import pytest

import warren
from warren.run_configs.choosing import choose_run, is_run_id, require_one
from warren_schemas.events import RunState
from warren_schemas.http import RunView
from warren_schemas.ids import RunId


def view(ending: str, state: RunState = RunState.COMPLETED, name: str = "guess") -> RunView:
    run = RunId("run_" + ending.rjust(28, "0"))
    return RunView(id=run, name=name, state=state, n_steps=1, created_s=0.0, config=None)


OVER, OLDER = view("b1"), view("a1")
GOING = view("c1", RunState.RUNNING)
OTHER = view("d1", name="math")


def test_last_is_the_newest_that_goes_on() -> None:
    assert choose_run([OTHER, OVER, GOING, OLDER], "last") is GOING
    assert choose_run([OTHER, OVER, OLDER], "last") is OTHER


def test_a_name_that_fits_several_says_which_it_took(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert choose_run([OVER, GOING, OLDER], "guess") is GOING
        assert choose_run([OVER, OLDER], "guess") is OVER
    first, second = caplog.messages
    assert first == f"'guess' fits 3 runs; took {GOING.id} (running), the newest that still goes on"
    assert second == f"'guess' fits 2 runs; took {OVER.id} (completed), the newest"


def test_a_name_or_an_ending_that_fits_one_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    assert choose_run([OVER, OTHER], "math") is OTHER
    assert choose_run([OVER, OTHER], "00d1") is OTHER
    assert not caplog.messages


def test_an_ending_must_fit_one() -> None:
    with pytest.raises(warren.ConfigurationError, match="'1' fits 2 runs"):
        choose_run([OVER, OTHER], "1")


def test_what_can_not_be_taken_back_takes_no_ambiguous_name() -> None:
    with pytest.raises(warren.ConfigurationError, match="'guess' fits 2 runs"):
        require_one([OVER, GOING, OTHER], "guess")
    require_one([OVER, GOING, OTHER], "math")
    require_one([OVER, GOING, OTHER], "last")


def test_a_name_that_fits_nothing() -> None:
    with pytest.raises(warren.NotFound, match="no run 'gues'"):
        choose_run([OVER], "gues")


def test_ids_are_told_from_names() -> None:
    assert is_run_id(OVER.id)
    assert not is_run_id("run_1") and not is_run_id("last")
