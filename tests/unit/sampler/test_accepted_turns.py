"""An accepted turn is answered once, unless it is cancelled."""

import numpy as np
from tests.support.sampling import FREE, LIVE, OTHER

from warren_gpu_worker.sampler.child.accepted_turns import AcceptedTurn, AcceptedTurns
from warren_gpu_worker.sampler.engines.port import PolicyKey, Refusal
from warren_gpu_worker.sampler.messages import PolicySource, TurnRequest
from warren_schemas.episode import FailureKind


def accept(turns: AcceptedTurns, number: int, policy: PolicyKey = LIVE) -> AcceptedTurn:
    source = PolicySource(policy, 0, None)
    return turns.accept(TurnRequest(number, source, np.zeros(3, np.int32), (), FREE, None))


def refusal(number: int) -> Refusal:
    return Refusal(number, FailureKind.SAMPLER_ERROR, "broken")


def test_a_turn_is_answered_once_and_told_once() -> None:
    turns = AcceptedTurns()
    accept(turns, 1)
    for _ in range(2):
        turns.answer(refusal(1))
    assert len(turns) == 0
    assert [answer.id for answer in turns.take_answers()] == [1]
    assert (turns.has_answers, turns.take_answers()) == (False, [])


def test_a_cancelled_turn_is_answered_by_nothing() -> None:
    turns = AcceptedTurns()
    accept(turns, 1)
    turns.cancel([1, 99])
    turns.answer(refusal(1))
    assert (len(turns), turns.get(1), turns.take_answers()) == (0, None, [])


def test_who_waits_for_a_policy_is_found_in_order_of_arrival() -> None:
    turns = AcceptedTurns()
    for number in (3, 1, 2):
        accept(turns, number).is_waiting = number != 1
    accept(turns, 4, OTHER).is_waiting = True
    assert [turn.id for turn in turns.waiting(LIVE)] == [3, 2]
    turns.cancel([3])
    assert [turn.id for turn in turns.waiting(LIVE)] == [2]
