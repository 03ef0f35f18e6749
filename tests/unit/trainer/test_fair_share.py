"""Whose op is next."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from tests.support.trainer import FULL, LORA, forward_backward, optim_step, random_batch

from warren_gpu_worker.trainer.messages import Apply, ApplyBatched, Close, Open, Order
from warren_gpu_worker.trainer.supervisor.fair_share import FairShares
from warren_schemas.ids import ModelId
from warren_schemas.training import ModelSpec


def opening(model: str, owner: str, epoch: int = 1) -> Open:
    return Open(ModelId(model), epoch, LORA, None, 1, owner)


def ops(model: str, first: int, last: int, epoch: int = 1) -> Apply:
    numbers = range(first, last + 1)
    return Apply(ModelId(model), epoch, tuple((n, optim_step()) for n in numbers))


def drained(shares: FairShares) -> list[Order | ApplyBatched]:
    orders: list[Order | ApplyBatched] = []
    while (order := shares.take()) is not None:
        orders.append(order)
    return orders


def names(orders: list[Order | ApplyBatched]) -> list[str]:
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
    kinds = [
        (type(order).__name__, order.epoch)
        for order in drained(shares)
        if not isinstance(order, ApplyBatched)
    ]
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


def small(model: str, *numbers: int, n_tokens: int = 10) -> Apply:
    op = forward_backward(random_batch(0, (n_tokens,)))
    return Apply(ModelId(model), 1, tuple((n, op) for n in numbers))


def rides(turns: list[Order | ApplyBatched]) -> list[str]:
    """The models of each turn."""
    return [
        " ".join(apply.model for apply in turn.applies)
        if isinstance(turn, ApplyBatched)
        else str(turn.model)
        for turn in turns
    ]


def sharing(tokens: int, **specs: ModelSpec) -> FairShares:
    shares = FairShares(tokens)
    for name, spec in specs.items():
        shares.add(Open(ModelId(name), 1, spec, None, 1, owner=f"owner of {name}"))
    drained(shares)
    return shares


def test_small_ops_of_like_models_ride_along_while_they_fit() -> None:
    other = LORA.model_copy(update={"update": LORA.update.model_copy(update={"rank": 8})})
    seeded = LORA.model_copy(update={"seed": 7})
    apart = LORA.model_copy(update={"deterministic": True})
    shares = sharing(35, a=LORA, b=seeded, c=LORA, d=LORA, e=other, f=apart, g=FULL)
    for model in "abcdefg":
        shares.add(small(model, 1))
    assert rides(drained(shares)) == ["a b c", "d", "e", "f", "g"]


def test_only_a_forward_backward_takes_others_along() -> None:
    shares = sharing(100, a=LORA, b=LORA)
    shares.add(ops("a", 1, 1))
    shares.add(small("b", 1, 2))
    shares.add(small("a", 2))
    assert rides(drained(shares)) == ["a", "b a", "b"]


def test_a_ride_counts_as_a_turn() -> None:
    """Who rode along comes after those who waited."""
    shares = sharing(20, a=LORA, b=LORA, c=LORA)
    shares.add(small("a", 1, 2))
    shares.add(small("b", 1, 2))
    shares.add(small("c", 1, 2))
    assert rides(drained(shares)) == ["a b", "c a", "b c"]
