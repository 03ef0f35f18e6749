"""What remote env workers may have of a gateway: slots, and queues at the broker."""

import asyncio

import pytest
from tests.support.patience import PATIENCE_S

from warren_broker.errors import NotAllowed
from warren_broker.topology import Home, WorkQueue, home, interact
from warren_gateway.budgets.budget import Budget, OverBudget
from warren_gateway.remote.declared_queues import DeclaredQueues
from warren_gateway.remote.worker_slots import WorkerSlots

GONE_AT_ONCE = WorkQueue("owned.ann.interact.letters", expires_s=0.01)


def a_budget(per_owner: int, total: int = 100) -> Budget:
    return Budget("things", per_owner=per_owner, total=total)


def n_used(budget: Budget, owner: str = "ann") -> int:
    return budget.view(owner).used


async def test_a_queue_counts_once_however_many_use_it() -> None:
    budget = a_budget(2)
    queues = DeclaredQueues(budget)
    one, other = queues.of_session("ann"), queues.of_session("ann")
    for session in (one, other, one):
        session.use(interact("letters", "ann"))
    assert n_used(budget) == 1
    one.use(home("env_1", "letters", "ann"))
    assert n_used(budget) == 2
    with pytest.raises(NotAllowed, match=r"one queue too many.*the limit is 2"):
        other.use(home("env_2", "letters", "ann"))
    queues.of_session("bob").use(interact("letters", "bob"))


async def test_a_home_counts_with_the_queue_that_it_falls_back_to() -> None:
    budget = a_budget(9)
    DeclaredQueues(budget).of_session("ann").use(home("env_1", "letters", "ann"))
    assert n_used(budget) == 2


async def test_a_queue_counts_until_the_broker_has_forgotten_it() -> None:
    """A worker that connects again and again, with a new environment each time, is bounded too."""
    budget = a_budget(1)
    queues = DeclaredQueues(budget)
    session = queues.of_session("ann")
    session.use(interact("letters", "ann"))
    session.close()
    with pytest.raises(NotAllowed):
        queues.of_session("ann").use(interact("numbers", "ann"))
    queues.of_session("ann").use(interact("letters", "ann"))


async def test_a_forgotten_queue_makes_room() -> None:
    budget = a_budget(1)
    queues = DeclaredQueues(budget, slack_s=0.0)
    session = queues.of_session("ann")
    session.use(GONE_AT_ONCE)
    session.close()
    async with asyncio.timeout(PATIENCE_S):
        while n_used(budget):  # noqa: ASYNC110 - a timer of the product tells nobody
            await asyncio.sleep(0.01)
    queues.of_session("ann").use(interact("numbers", "ann"))


async def test_one_that_is_used_again_is_not_forgotten() -> None:
    budget = a_budget(9)
    queues = DeclaredQueues(budget, slack_s=0.0)
    session, heir = queues.of_session("ann"), queues.of_session("ann")
    later = Home("owned.ann.home.env_1.numbers", GONE_AT_ONCE, expires_s=0.1)
    session.use(later)
    session.close()
    heir.use(GONE_AT_ONCE)
    async with asyncio.timeout(PATIENCE_S):
        while n_used(budget) > 1:  # noqa: ASYNC110 - a timer of the product tells nobody
            await asyncio.sleep(0.01)
    assert heir.has(GONE_AT_ONCE) and n_used(budget) == 1


def test_a_worker_that_comes_back_inherits_its_place() -> None:
    budget = a_budget(1)
    slots = WorkerSlots(budget)
    old, new = slots.hold("ann", "env_1"), slots.hold("ann", "env_1")
    old.__enter__()
    new.__enter__()
    assert n_used(budget) == 1
    old.__exit__(None, None, None)
    assert n_used(budget) == 1
    with pytest.raises(OverBudget), slots.hold("ann", "env_2"):
        pass
    new.__exit__(None, None, None)
    assert n_used(budget) == 0


@pytest.mark.parametrize("worker", ["env_1", "env_2", None])
def test_there_is_one_heir_at_a_time(worker: str | None) -> None:
    """Or one name would open any number of sockets."""
    slots = WorkerSlots(a_budget(1))
    with slots.hold("ann", "env_1"), slots.hold("ann", "env_1"):
        with pytest.raises(OverBudget), slots.hold("ann", worker):
            pass
        with slots.hold("bob", "env_1"):
            pass


def test_an_heir_that_goes_first_leaves_the_place_as_it_was() -> None:
    budget = a_budget(1)
    slots = WorkerSlots(budget)
    with slots.hold("ann", "env_1"):
        for _ in range(3):
            with slots.hold("ann", "env_1"):
                assert n_used(budget) == 1
        assert n_used(budget) == 1
    assert n_used(budget) == 0
