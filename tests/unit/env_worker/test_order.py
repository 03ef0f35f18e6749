"""The order of tasks: each epoch has all of them once, and everybody agrees on it."""

from hypothesis import given
from hypothesis import strategies as st

from warren_env_worker.host.order import position


@given(n_tasks=st.integers(1, 50), epoch=st.integers(0, 5), seed=st.integers(0, 2**63))
def test_each_epoch_has_every_task_once(n_tasks: int, epoch: int, seed: int) -> None:
    indices = range(epoch * n_tasks, (epoch + 1) * n_tasks)
    drawn = [position(i, n_tasks, "train", seed) for i in indices]
    assert sorted(drawn) == list(range(n_tasks))


def test_epochs_splits_and_seeds_have_orders_of_their_own() -> None:
    def order(epoch: int, split: str, seed: int) -> tuple[int, ...]:
        return tuple(position(epoch * 20 + i, 20, split, seed) for i in range(20))

    orders = {order(0, "train", 1), order(1, "train", 1), order(0, "test", 1), order(0, "train", 2)}
    assert len(orders) == 4
    assert order(0, "train", 1) in orders


def test_the_order_is_pinned() -> None:
    """A run that is resumed with another version of Warren must go on with the same tasks."""
    assert [position(i, 10, "train", 0) for i in range(12)] == PINNED


PINNED = [0, 2, 3, 6, 1, 4, 8, 7, 9, 5, 5, 3]
