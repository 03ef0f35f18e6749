"""How long a process that plays an episode may be silent."""

import os
import socket
from collections.abc import Generator
from dataclasses import replace

import pytest
from tests.support.interacting import spec

from warren.environment import Limits
from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.forked.episode_process import STUCK_S, EpisodeProcess
from warren_env_worker.host.protocol import Call
from warren_env_worker.host.request import Request
from warren_schemas.operator_policy import TRUSTING

LIMITS = Limits(reset_s=100.0, step_s=10.0, score_s=30.0)
ANONYMOUS = -1


@pytest.fixture
def process() -> Generator[EpisodeProcess]:
    """This one, seen as the fork server sees one of its own."""
    talk, other = socket.socketpair()
    output, printed = os.pipe()
    process = EpisodeProcess(os.getpid(), talk, output, CallStatus(ANONYMOUS), n_loads=1)
    yield process
    process.close()
    os.close(process.exit)
    process.status.close()
    other.close()
    os.close(printed)


def begins() -> Call:
    request = Request(0, spec("letters"), None, lambda _: None)
    return request.whole_call(1, TRUSTING, sees_tokens=False)


@pytest.mark.parametrize(
    ("call", "longest_s"),
    [
        (begins(), 3 * 100.0),
        (replace(begins(), actions=("a", "b")), 3 * 100.0 + 2 * 10.0),
        (Call(1, 0, actions=("a",)), 10.0),
    ],
)
def test_what_awaits_in_a_call_has_the_time_of_that_call(
    process: EpisodeProcess, call: Call, longest_s: float
) -> None:
    process.ask(call)
    last_s = process.asked_s + longest_s + LIMITS.score_s + LIMITS.step_s + STUCK_S
    assert process.silence(LIMITS, last_s - 1.0) is None
    assert process.silence(LIMITS, last_s + 1.0) == "its process was silent for too long"


def test_what_only_closes_has_the_time_of_a_step(process: EpisodeProcess) -> None:
    process.asked_s = 1000.0
    assert process.silence(LIMITS, 1000.0 + LIMITS.step_s) is None
    assert process.silence(LIMITS, 1001.0 + LIMITS.step_s + STUCK_S) is not None
