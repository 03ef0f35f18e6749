"""Samples of one owner that were refused get their places in the order in which they came."""

import gc
import weakref

import pytest
from tests.support.clock import Clock

from warren_gateway.budgets.budget import Budget, OverBudget
from warren_gateway.tinker.samples.retry_queue import MOST_TURNS, PATIENCE_S, RetryQueue

MOST = 10


class Owner:
    """Asks as the gateway does."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.budget = Budget("answers", per_owner=MOST, total=10 * MOST)
        self.turns = RetryQueue(self.budget, self.clock)

    def gets(self, name: str, n: int) -> bool:
        try:
            self.turns.require("ann", name, n)
            self.budget.take("ann", n)
        except OverBudget:
            self.turns.refused("ann", name, n)
            return False
        self.turns.taken("ann", name)
        return True


@pytest.fixture
def ann() -> Owner:
    return Owner()


def test_a_smaller_one_does_not_pass_a_larger_one_that_came_first(ann: Owner) -> None:
    assert ann.gets("first", 8)
    assert not ann.gets("large", MOST)
    assert not ann.gets("small", 1), "though there is place for it"
    ann.turns.require("bob", "small", 1)
    ann.budget.give_back("ann", 8)
    assert not ann.gets("small", 1)
    assert ann.gets("large", MOST)
    ann.budget.give_back("ann", MOST)
    assert ann.gets("small", 1)


def test_those_of_one_size_and_those_that_came_first_are_not_held_up(ann: Owner) -> None:
    assert ann.gets("first", MOST)
    assert not ann.gets("small", 1)
    assert not ann.gets("large", 5)
    assert not ann.gets("as large", 5)
    ann.budget.give_back("ann", 5)
    assert ann.gets("small", 1)
    ann.budget.give_back("ann", 1)
    assert ann.gets("as large", 5)


def test_a_turn_is_given_up_by_whoever_does_not_come_again(ann: Owner) -> None:
    assert ann.gets("first", 8)
    assert not ann.gets("large", MOST)
    ann.clock.now_s += PATIENCE_S
    assert not ann.gets("small", 1)
    ann.clock.now_s += 1
    assert ann.gets("small", 1)


def test_an_owner_has_so_many_turns_and_none_of_them_is_lost_to_those_that_come_later(
    ann: Owner,
) -> None:
    assert ann.gets("first", 8)
    assert not ann.gets("large", MOST)
    assert not any(ann.gets(f"{i}", 9) for i in range(MOST_TURNS - 1))
    ann.budget.give_back("ann", 8)
    ann.clock.now_s += 1
    assert not ann.gets("one too many", 9)
    assert ann.gets("large", MOST), "for it came before all others"
    ann.budget.give_back("ann", MOST)
    ann.clock.now_s += PATIENCE_S - 1
    assert not ann.gets("small", 2)
    ann.clock.now_s += 1
    assert ann.gets("small", 2), "for the one too many got no turn"


class Name(str):
    """Of an owner; tells whether anybody has it still."""


def test_owners_who_do_not_come_again_are_forgotten(ann: Owner) -> None:
    owner = Name("bob")
    ann.turns.refused(owner, "large", MOST)
    known = weakref.ref(owner)
    del owner
    assert known() is not None
    ann.clock.now_s += PATIENCE_S + 1
    ann.turns.require("ann", "small", 1)
    gc.collect()
    assert known() is None
