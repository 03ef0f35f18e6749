"""The order of tasks: each epoch has all of them once, and everybody agrees on it."""

from hypothesis import given
from hypothesis import strategies as st

from warren_schemas.datasets.order import Order


@given(n_tasks=st.integers(1, 50), epoch=st.integers(0, 5), seed=st.integers(0, 2**63))
def test_each_epoch_has_every_task_once(n_tasks: int, epoch: int, seed: int) -> None:
    indices = range(epoch * n_tasks, (epoch + 1) * n_tasks)
    drawn = [Order("train", seed).position(i, n_tasks) for i in indices]
    assert sorted(drawn) == list(range(n_tasks))


def test_epochs_splits_and_seeds_have_orders_of_their_own() -> None:
    def order(epoch: int, split: str, seed: int) -> tuple[int, ...]:
        return tuple(Order(split, seed).position(epoch * 20 + i, 20) for i in range(20))

    orders = {order(0, "train", 1), order(1, "train", 1), order(0, "test", 1), order(0, "train", 2)}
    assert len(orders) == 4
    assert order(0, "train", 1) in orders


def test_the_order_is_pinned() -> None:
    """A run that is resumed with another version of Warren must go on with the same tasks."""
    assert [Order("train", 0).position(i, 10) for i in range(12)] == PINNED


PINNED = [0, 2, 3, 6, 1, 4, 8, 7, 9, 5, 5, 3]


def test_row_51_splits_are_cut_and_shuffled_as_the_run_says() -> None:
    """Parity row 51: `num_samples` are chosen once, `shuffle: false` keeps the data's order."""
    first_three = Order("train", 1, shuffle=False, num_samples=3)
    assert [first_three.position(i, 10) for i in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    some = Order("train", 1, num_samples=3)
    epochs = [sorted(some.position(epoch * 3 + i, 10) for i in range(3)) for epoch in range(4)]
    assert len(set(epochs[0])) == 3
    assert epochs[1:] == epochs[:1] * 3
    assert epochs[0] != [0, 1, 2]
    assert [Order("train", 1, num_samples=99).position(i, 4) for i in range(4)] == [
        Order("train", 1).position(i, 4) for i in range(4)
    ]
