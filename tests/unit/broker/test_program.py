"""A program's foreseen failures leave as errors that say what to do; others are logged whole."""

import logging

import pytest

from warren_broker.errors import BrokerError
from warren_broker.worker.program import run_program
from warren_schemas.errors import WarrenError


async def fail_with(error: Exception) -> None:
    raise error


def test_a_foreseen_failure_says_what_to_do_also_out_of_groups() -> None:
    foreseen = BrokerError("no answer\n  from it")
    for error in (foreseen, ExceptionGroup("tasks", [KeyError(), ExceptionGroup("", [foreseen])])):
        with pytest.raises(WarrenError) as told:
            run_program(lambda error=error: fail_with(error), {BrokerError: "Start it."})
        assert (told.value.message, told.value.hint) == ("no answer from it", "Start it.")


def test_the_first_kind_that_is_found_counts() -> None:
    group = ExceptionGroup("tasks", [BrokerError("away"), KeyError("spoilt")])
    with pytest.raises(WarrenError, match="spoilt"):
        run_program(lambda: fail_with(group), {KeyError: None, BrokerError: "Start it."})


def test_what_nobody_foresaw_is_logged_and_leaves_as_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    group = ExceptionGroup("tasks", [KeyError("spoilt")])
    with caplog.at_level(logging.ERROR), pytest.raises(ExceptionGroup):
        run_program(lambda: fail_with(group), {BrokerError: None})
    assert "KeyError: 'spoilt'" in caplog.text
