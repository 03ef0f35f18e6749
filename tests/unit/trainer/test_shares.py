"""Whose op is next."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.support.trainer import LORA, optim_step

from warren_gpu_worker.trainer.frames import Apply, Close, Open, Order
from warren_gpu_worker.trainer.shares import FairShares
from warren_schemas.ids import ModelId


def opening(model: str, owner: str, epoch: int = 1) -> Open:
    return Open(ModelId(model), epoch, LORA, None, 1, owner)


def ops(model: str, first: int, last: int, epoch: int = 1) -> Apply:
    numbers = range(first, last + 1)
    return Apply(ModelId(model), epoch, tuple((n, optim_step()) for n in numbers))


def drained(shares: FairShares) -> list[Order]:
    orders: list[Order] = []
    while (order := shares.take()) is not None:
        orders.append(order)
    return orders


def names(orders: list[Order]) -> list[str]:
    return [f"{o.model}{o.ops[0][0]}" for o in orders if isinstance(o, Apply)]


def test_a_greedy_owner_takes_turns_with_a_modest_one() -> None:
    shares = FairShares()
    for model, owner in (("a", "greedy"), ("b", "greedy"), ("c", "modest")):
        shares.add(opening(model, owner))
    drained(shares)
    shares.add(ops("a", 1, 100))
    shares.add(ops("b", 1, 100))
    shares.add(ops("c", 1, 3))
    assert names(drained(shares))[:8] == ["c1", "a1", "c2", "b1", "c3", "a2", "b2", "a3"]
    shares.add(ops("a", 101, 103))
    shares.take()
    shares.add(ops("c", 4, 4))
    assert names(drained(shares)) == ["c4", "a102", "a103"]


def test_closing_drops_what_waits_and_spares_a_newer_lease() -> None:
    shares = FairShares()
    shares.add(opening("a", "x"))
    shares.add(ops("a", 1, 3))
    shares.add(Close(ModelId("a"), 1))
    shares.add(opening("a", "x", epoch=2))
    shares.add(ops("a", 1, 1, epoch=2))
    shares.add(Close(ModelId("a"), 1))
    kinds = [(type(order).__name__, order.epoch) for order in drained(shares)]
    assert kinds == [("Open", 2), ("Apply", 2), ("Close", 1)]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(1, 6)), max_size=30))
def test_every_op_comes_once_and_in_the_order_of_its_model(sent: list[tuple[str, int]]) -> None:
    shares = FairShares()
    for model in "abcd":
        shares.add(opening(model, owner="first" if model in "ab" else "second"))
    drained(shares)
    reached: Counter[str] = Counter()
    taken: dict[str, list[int]] = {model: [] for model in "abcd"}

    def take() -> None:
        order = shares.take()
        if isinstance(order, Apply):
            taken[order.model].append(order.ops[0][0])

    for model, n in sent:
        shares.add(ops(model, reached[model] + 1, reached[model] + n))
        reached[model] += n
        take()
    for _ in range(sum(reached.values())):
        take()
    assert taken == {model: list(range(1, reached[model] + 1)) for model in "abcd"}
