"""The fork server's side of a process that plays episodes, one at a time.

Either it holds a live episode, and is asked one call of it after the other; or it gets several stateless
calls at once, each of which is an episode to itself.
"""

import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

from warren.environment import Env, Limits
from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.late import raisable_s, too_long
from warren_env_worker.host.protocol import IDLE, Call, send
from warren_env_worker.output.episode import EpisodeOutput
from warren_env_worker.output.stack import own_root
from warren_env_worker.permissions.sealed import NOTHING

SEND_S = 5
"""How long a process that waits for its next call may take to read it."""
STUCK_S = 5.0
"""How long after the limits of its calls a silent process counts as stuck."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_READ_BYTES = 64 * 1024
SLOW_S = 0.25
"""After so long in one call, others play what waits behind it."""
_SEVERAL = "one of several episodes"
_TIMEVAL = struct.Struct("ll")


class EpisodeProcess:
    def __init__(
        self, pid: int, talk: socket.socket, output: int, status: CallStatus, n_loads: int
    ) -> None:
        self.pid = pid
        self.talk = talk
        self.output = output
        self.exit = os.pidfd_open(pid)
        self.status = status
        self.n_loads = n_loads
        """How often tasks had been loaded when it was forked."""
        self.told = NOTHING
        """The secrets that it knows, where they lie."""
        self.slot: int | None = None
        """Of the episode that is live there."""
        self.is_stateless = False
        """It plays stateless calls."""
        self.calls: dict[int, Call] = {}
        """Under way, and not answered, by number: those of a live episode come one at a time."""
        self.first: Call | None = None
        """The call that began its live episode, or the last one of those; None if that was dropped."""
        self.shown = ""
        """Digest of the answer to it."""
        self.is_released = False
        """Others play what was behind the call that it is in."""
        self.n_asked = 0
        """Calls of that episode, or of those that are stateless."""
        self.asked_s = 0.0
        self.sentence: str | None = None
        """Why it was killed for being late."""
        self._is_reused = False
        self._progress_before = 0
        self._busy_before_s = 0.0
        self._received = bytearray()
        self._printed = EpisodeOutput(output, "between episodes", NOTHING)
        talk.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(SEND_S, 0))

    def suits(self, call: Call, n_loads: int) -> bool:
        """Whether it has the tasks, for it was forked after so many loads, and knows nobody else's secrets."""
        assert call.start is not None
        knows_others = bool(self.told.values) and self.told != call.start.sealed
        return self.n_loads >= n_loads and not knows_others

    def begin(self, call: Call) -> None:
        """Give it an episode, which `call` starts. Raises `OSError` if it does not read."""
        assert call.start is not None
        self.slot = call.slot
        self.told = call.start.sealed
        self.first = call
        self._start_over(call.start.tag)
        self.ask(call)

    def begin_stateless(self, calls: Sequence[Call]) -> None:
        """Give it these calls. Raises `OSError` if it does not read."""
        self.is_stateless = True
        self._start_over(_SEVERAL)
        self._send(calls)

    def _start_over(self, tag: str) -> None:
        self.n_asked, self._busy_before_s = 0, self.status.busy_s
        self._printed = EpisodeOutput(self.output, tag, self.told)

    def ask(self, call: Call) -> None:
        """Raises `OSError` if it does not read."""
        self._send([call])

    def _send(self, calls: Sequence[Call]) -> None:
        self.calls.update((call.id, call) for call in calls)
        self.n_asked += len(calls)
        self.asked_s = time.monotonic()
        self._progress_before = self.status.progress
        send(self.talk, calls)

    def rest(self) -> None:
        """It is ready for another episode; what it printed before it said so is the last one's."""
        self._printed.end()
        self._is_reused = True
        self.is_stateless = False

    @property
    def busy_s(self) -> float:
        """In user code, since it was given what it plays."""
        return self.status.busy_s - self._busy_before_s

    @property
    def is_silent(self) -> bool:
        """Whether it has printed nothing since then."""
        return self._printed.is_empty

    def unfinished(self) -> tuple[Call | None, list[Call]]:
        """The call that is to blame if it is dead now, and those that did not begin or can do so again."""
        calls = dict(self.calls)
        if self.is_stateless:
            return calls.pop(self.status.begun, None), list(calls.values())
        is_fresh = not self.has_begun and all(call.start for call in calls.values())
        guilty = None if is_fresh else next(iter(calls.values()), None)
        return guilty, list(calls.values()) if is_fresh else []

    @property
    def is_slow(self) -> bool:
        """Whether calls wait behind one that takes long."""
        in_call_s = self.status.limit_s - self.status.remaining_s
        is_waited_for = self.is_stateless and len(self.calls) > 1
        return is_waited_for and self.status.call != IDLE and in_call_s > SLOW_S

    def release(self) -> list[Call]:
        """Those behind the call that it is in; others will play them."""
        begun = self.calls.pop(self.status.begun, None)
        behind = list(self.calls.values())
        self.calls = {} if begun is None else {begun.id: begun}
        self.is_released = True
        return behind

    def drop_call(self, slot: int) -> Call | None:
        """Nobody needs what this episode was asked any more; the call, if one was under way."""
        self.first = None
        dropped = next((call for call in self.calls.values() if call.slot == slot), None)
        if dropped is not None:
            del self.calls[dropped.id]
        return dropped

    @property
    def has_begun(self) -> bool:
        """Whether the call under way got as far as the environment's code.

        Of a fresh process it is assumed: if that dies at its first call, so would the next.
        """
        return not self._is_reused or self.status.progress != self._progress_before

    def hear(self) -> list[bytes]:
        """The frames that are there. Raises `OSError` when the conversation is over."""
        try:
            received = self.talk.recv(_READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return []
        if not received:
            raise ConnectionResetError("it hung up")
        self._received += received
        return list(self._frames())

    def _frames(self) -> list[bytes]:
        frames: list[bytes] = []
        while len(self._received) >= 4:
            n_bytes = int.from_bytes(self._received[:4], "little")
            if n_bytes > MAX_ANSWER_BYTES:
                raise ConnectionAbortedError("it sent what is no answer")
            if len(self._received) < 4 + n_bytes:
                break
            frames.append(bytes(self._received[4 : 4 + n_bytes]))
            del self._received[: 4 + n_bytes]
        return frames

    def pass_output_on(self) -> bool:
        """What it printed, to the log, up to a limit; False when nothing more will come."""
        return self._printed.pass_on()

    def lateness(self, environment: type[Env[Any]]) -> str | None:
        """What to say of the call that it is in, if that is over its time; then it blocks a moment."""
        if self.status.call == IDLE or self.status.remaining_s > 0:
            return None
        # Before we ask where it waits: another call may be entered meanwhile.
        limit_s = self.status.limit_s
        where = self._printed.where(self.pid, own_root(environment))
        return f"a call {too_long(limit_s, raisable_s(environment), where)}"

    def silence(self, limits: Limits, now_s: float) -> str | None:
        """What to say of one that owes an answer, or its end, and is in no call."""
        longest_s = sum(_longest_s(call, limits) for call in self.calls.values()) or limits.step_s
        is_stuck = now_s - self.asked_s > longest_s + STUCK_S
        return (
            "its process was silent for too long" if is_stuck and self.status.call == IDLE else None
        )

    def is_overdue(self, environment: type[Env[Any]], now_s: float, *, closes: bool) -> bool:
        """Whether it is late or silent; `sentence` says how. `closes`: it is ending its episode."""
        self.sentence = self.lateness(environment)
        if self.sentence is None and (self.calls or self.is_stateless or closes):
            self.sentence = self.silence(environment.limits, now_s)
        return self.sentence is not None

    def kill(self) -> None:
        """It, and whatever it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def reap(self) -> str:
        """Kill it, and let go of everything; how it ended."""
        self.kill()
        _, status = os.waitpid(self.pid, 0)
        self._printed.end()
        self.close()
        os.close(self.exit)
        self.status.close()
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            return f"its process was killed by {signal.Signals(-code).name}"
        return f"its process ended with exit code {code}"

    def forget_output(self) -> None:
        """In the process of another episode: what this one's said and printed."""
        self._received.clear()
        self._printed.drop_unwritten()

    def close(self) -> None:
        self.talk.close()
        os.close(self.output)


def _longest_s(call: Call, limits: Limits) -> float:
    """How long its answer may take, if each method takes as long as it may."""
    beginning_s = (
        3 * limits.reset_s if call.start is not None else 0.0
    )  # with constructor and prompt
    demonstration_s = limits.step_s
    return beginning_s + len(call.actions) * limits.step_s + limits.score_s + demonstration_s
