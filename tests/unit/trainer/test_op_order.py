"""Ops in order, exactly once, whatever order and however often their messages come."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from warren_broker.inbox import Claim
from warren_gpu_worker.trainer.supervisor.op_order import KEPT_ANSWERS, MAX_EARLY, OpSequence
from warren_schemas.envelope import Envelope
from warren_schemas.ids import MessageId, ModelId
from warren_schemas.training import Op, OpDone, OpFailed, OpResult, PublishPolicy

MODEL = ModelId("model_test")


@dataclass(eq=False)
class NotedClaim:
    """A claim that remembers how it was settled."""

    item: Op
    n_deliveries: int = 1
    offset: int | None = None
    settled: list[str] = field(default_factory=list[str])

    def done(self) -> None:
        self.settled.append("done")

    def hand_back(self, *, delay_s: float = 0.0) -> None:
        self.settled.append("handed back")

    def dead_letter(self, reason: str) -> None:
        self.settled.append(reason)


def envelope(number: int, name: str = "op") -> Envelope:
    return Envelope(id=MessageId(f"{name}-{number}"))


def claim(number: int, *, epoch: int = 1, model: ModelId = MODEL, name: str = "op") -> NotedClaim:
    op = Op(
        envelope=envelope(number, name),
        model=model,
        epoch=epoch,
        number=number,
        body=PublishPolicy(),
    )
    return NotedClaim(op)


def result(number: int) -> OpResult:
    outcome = OpDone(version=number)
    return OpResult(
        envelope=Envelope(),
        model=MODEL,
        epoch=1,
        number=number,
        op=envelope(number).id,
        outcome=outcome,
    )


def settle(claims: list[Claim[Op]]) -> None:
    for one in claims:
        one.done()


@given(
    st.permutations([*range(5, 25), *range(5, 25, 3)]),
    st.lists(st.integers(1, 4), min_size=30, max_size=30),
    st.lists(st.booleans(), min_size=30, max_size=30),
)
def test_every_op_is_handed_out_once_and_every_claim_settled_once(
    arrivals: list[int], batches: list[int], answer_now: list[bool]
) -> None:
    sequence = OpSequence(MODEL, 1, next_op=5)
    claims = [claim(number) for number in arrivals]
    waiting, answered = list(claims), set[int]()
    handed_out: list[int] = []
    under_way: list[int] = []

    def answer_all() -> None:
        for number in under_way:
            settle(sequence.answered(result(number)))
            answered.add(number)
        under_way.clear()

    for size, now in zip(batches, answer_now, strict=True):
        batch, waiting = waiting[:size], waiting[size:]
        for one, kept in sequence.take(batch):
            assert kept.number == one.item.number
            assert kept.number in answered
            one.done()
        new = [op.number for op in sequence.ready()]
        handed_out += new
        under_way += new
        if now:
            answer_all()
    for one, _ in sequence.take(waiting):
        one.done()
    new = [op.number for op in sequence.ready()]
    handed_out += new
    under_way += new
    answer_all()
    assert handed_out == list(range(5, 25))
    assert all(one.settled == ["done"] for one in claims)


def test_a_gap_waits_and_what_is_furthest_ahead_is_handed_back() -> None:
    sequence = OpSequence(MODEL, 1, next_op=1)
    early = [claim(number) for number in range(2, MAX_EARLY + 12)]
    assert sequence.take(early) == []
    assert sequence.ready() == []
    assert [one.settled for one in early] == [[]] * MAX_EARLY + [["handed back"]] * 10
    sequence.take([claim(1)])
    assert [op.number for op in sequence.ready()] == list(range(1, MAX_EARLY + 2))


def test_only_the_last_answers_are_kept() -> None:
    sequence = OpSequence(MODEL, 1, next_op=1)
    for number in range(1, KEPT_ANSWERS + 2):
        sequence.take([claim(number)])
        sequence.ready()
        settle(sequence.answered(result(number)))
    forgotten, kept = claim(1), claim(2)
    again = {one.item.number: answer for one, answer in sequence.take([forgotten, kept])}
    assert again[2].outcome == result(2).outcome
    outcome = again[1].outcome
    assert isinstance(outcome, OpFailed) and outcome.ahead_version == KEPT_ANSWERS + 1
    assert again[1].op == envelope(1).id


def test_an_op_of_the_checkpoint_needs_no_answer() -> None:
    sequence = OpSequence(MODEL, 1, next_op=5)
    old = claim(4)
    assert sequence.take([old]) == []
    assert old.settled == ["done"]


def test_ops_of_another_lease_are_dead_letters() -> None:
    sequence = OpSequence(MODEL, 1, next_op=1)
    strangers = [claim(1, epoch=2), claim(1, model=ModelId("model_other"))]
    assert sequence.take(strangers) == []
    assert sequence.ready() == []
    assert all("not of model model_test, epoch 1" in one.settled[0] for one in strangers)


def test_another_op_under_a_number_that_is_taken_is_told_how_far_the_model_is() -> None:
    """As when a store that lost its newest changes gives the number again."""
    sequence = OpSequence(MODEL, 1, next_op=5)
    sequence.take([claim(5), claim(6)])
    sequence.ready()
    settle(sequence.answered(result(5)))
    other = [claim(number, name="other") for number in (5, 6)]
    for given_claim, answer in sequence.take(other):
        assert answer.op == given_claim.item.envelope.id
        assert isinstance(answer.outcome, OpFailed) and answer.outcome.ahead_version == 5
    assert sequence.next_op == 7 and not sequence.has_gap
    [(_, again)] = sequence.take([claim(5)])
    assert again == result(5).model_copy(update={"envelope": again.envelope})
