"""Requests as calls: one whose episode alone has lost its process is asked again, but not for ever."""

import pytest
from tests.support.interacting import spec

from warren_env_worker.environments.echo import Echo
from warren_env_worker.host.calls import MAX_LOSSES, Calls
from warren_env_worker.host.environment_class.describing import describe
from warren_env_worker.host.protocol import Answer, Observed, Refused
from warren_env_worker.host.request import Request
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import TRUSTING
from warren_schemas.transcript import Transcript

SLOT = 7


@pytest.fixture
def calls() -> Calls:
    return Calls(describe(Echo), TRUSTING)


def lost(calls: Calls, request: Request) -> Request | None:
    """What is asked again when its process is lost in the call of this request."""
    call = calls.made_of(request)
    assert call is not None
    assert call.start is not None  # from the episode's beginning
    return calls.settle(Refused(call.id, FailureKind.LOST, "its process was lost"))


@pytest.mark.parametrize("transcript", [None, Transcript()])
def test_a_process_that_is_lost_each_time_fails_the_request_by_a_kind_of_its_own(
    calls: Calls, transcript: Transcript | None
) -> None:
    answers: list[Answer] = []
    request = Request(SLOT, spec(), transcript, answers.append)
    for _ in range(MAX_LOSSES - 1):
        assert lost(calls, request) is request
        assert not answers
    assert lost(calls, request) is None
    (answer,) = answers
    assert isinstance(answer, Refused)
    assert answer.kind is FailureKind.ENVIRONMENT_CRASHED
    assert answer.reason == f"its process was lost, {MAX_LOSSES} times at one action"
    assert SLOT not in calls.held


def test_losses_of_earlier_actions_do_not_count(calls: Calls) -> None:
    answers: list[Answer] = []
    for number in range(MAX_LOSSES):
        request = Request(SLOT + number, spec(), None, answers.append)
        assert lost(calls, request) is request
        call = calls.made_of(request)
        assert call is not None
        assert calls.settle(Observed(call.id)) is None
    assert [type(answer) for answer in answers] == [Observed] * MAX_LOSSES
