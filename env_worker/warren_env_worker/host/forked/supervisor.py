"""The supervisor, as the fork server sees it."""

import socket

from warren_env_worker.host.child.call_reader import CallReader
from warren_env_worker.host.protocol import Answer, Call, Observed, Refused, pack_answers
from warren_env_worker.host.refusal import blame
from warren_schemas.episode import FailureKind


class Supervisor:
    def __init__(self, talk: socket.socket) -> None:
        self._talk = talk
        self._call_reader = CallReader(talk)
        self._ready: list[Answer] = []

    def calls(self) -> list[Call] | None:
        """All that is complete; None when it has gone. Call it when there is news."""
        return self._call_reader.calls()

    def answer(self, answer: Answer) -> None:
        """With the next `flush`."""
        self._ready.append(answer)

    def answer_close(self, call: Call, unanswered: Call | None) -> None:
        """And the call that the closing cut short: unanswered, it would count as under way for ever."""
        self.answer(Observed(call.id))
        if unanswered is not None:
            reason = "its episode was closed meanwhile"
            self.answer(Refused(unanswered.id, FailureKind.LOST, reason))

    def flush(self) -> None:
        ready, self._ready = self._ready, []
        if ready:
            frame = pack_answers(ready)
            self._talk.sendall(len(frame).to_bytes(4, "little") + frame)

    def close(self) -> None:
        """In a forked process, which is not the one to talk."""
        self._talk.close()


def refused(call: Call, error: BaseException, package: str) -> Refused:
    """The answer to a call for which user code of this package raised."""
    refusal = blame(error, package)
    return Refused(call.id, refusal.kind, refusal.reason, refusal.is_retryable)


def ended_in(call: Call, how: str, *, late: str | None) -> Refused:
    """The answer to a call in which the process died, or was killed for being `late`."""
    kind = FailureKind.ENVIRONMENT_TIMEOUT if late else FailureKind.ENVIRONMENT_CRASHED
    return Refused(call.id, kind, f"in {_method(call)}, {late or how}")


def _method(call: Call) -> str:
    if call.group is not None:
        return "score_group()"
    return "step()" if call.actions else "reset()"
