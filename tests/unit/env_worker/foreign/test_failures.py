"""Failures of foreign programs: whatever its length, no part of a secret is in what is told of one."""

import json

import pytest

from warren_env_worker.foreign.episode import PackageFailed
from warren_env_worker.foreign.package_process import MAX_LINE_BYTES
from warren_env_worker.foreign.programs import fork_server
from warren_env_worker.host.refusal import MAX_REASON_CHARS, one_line
from warren_env_worker.permissions.secrets import for_run

KEY = "key  0123456789-abcdefghijklmnopqrstuvwxyz"
"""Blanks that follow each other are part of it."""
KNOWN = [KEY[begin : begin + 5] for begin in range(len(KEY) - 4)]


class Raises:
    def __init__(self, message: str) -> None:
        self._message = message

    def step(self, asked: object) -> dict[str, object]:
        raise RuntimeError(self._message)


def line(message: str) -> bytes:
    return fork_server.answer(Raises(message), {"step": None}, MAX_LINE_BYTES)


def reason(message: str) -> str:
    with for_run({"JUDGE": KEY}):
        return one_line(PackageFailed(json.loads(line(message))["error"]))


@pytest.mark.parametrize("n_before", [0, 200, 245, 260, 280, MAX_REASON_CHARS, 65_500, 70_000])
def test_a_secret_is_taken_out_before_a_failure_is_cut(n_before: int) -> None:
    told = reason(f"{'x' * n_before} {KEY}")
    assert not [part for part in KNOWN if part in told]
    assert len(told) <= MAX_REASON_CHARS + 1


def test_many_secrets_leave_none_where_the_message_is_too_long() -> None:
    told = reason(KEY * 2_000)
    assert not [part for part in KNOWN if part in told]
    assert told == "PackageFailed: RuntimeError: its message has 84000 characters; the log has them"


def test_the_longest_message_is_one_line_of_the_conversation() -> None:
    assert len(line("\N{GRINNING FACE}" * fork_server.MAX_MESSAGE_CHARS)) < MAX_LINE_BYTES
    assert "characters" not in reason("x" * fork_server.MAX_MESSAGE_CHARS)
