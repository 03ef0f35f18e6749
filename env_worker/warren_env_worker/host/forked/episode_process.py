"""The fork server's side of a process that plays episodes, one at a time."""

import contextlib
import os
import signal
import socket
import struct
import time

from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.protocol import IDLE, Call, send
from warren_env_worker.output.episode import EpisodeOutput
from warren_env_worker.reach.sealed import NOTHING

SEND_S = 5
"""How long a process that waits for its next call may take to read it."""
STUCK_S = 5.0
"""How long after the limits of its calls a silent process counts as stuck."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
_READ_BYTES = 64 * 1024
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
        self.call: Call | None = None
        """Under way, and not answered."""
        self.asked_s = 0.0
        self.sentence: str | None = None
        """Why it was killed for being late."""
        self._is_reused = False
        self._progress_before = 0
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
        self._printed = EpisodeOutput(self.output, call.start.tag, self.told)
        self.ask(call)

    def ask(self, call: Call) -> None:
        """Raises `OSError` if it does not read."""
        self.call, self.asked_s = call, time.monotonic()
        self._progress_before = self.status.progress
        send(self.talk, call)

    def rest(self) -> None:
        """It is ready for another episode; what it printed before it said so is the last one's."""
        self._printed.end()
        self._is_reused = True

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

    def lateness(self, root: str) -> str | None:
        """What to say of the call that it is in, if that is over its time; then it blocks a moment.

        `root` is where the environment's own code lies.
        """
        if self.status.call == IDLE or self.status.remaining_s > 0:
            return None
        limit_s = self.status.limit_s
        return f"a call took longer than {limit_s:g} s{self._printed.where(self.pid, root)}"

    def silence(self, step_s: float, now_s: float) -> str | None:
        """What to say of one that owes an answer, or its end, and is in no call."""
        n_steps = 1 + len(self.call.actions) if self.call else 1
        is_stuck = now_s - self.asked_s > step_s * n_steps + STUCK_S
        return (
            "its process was silent for too long" if is_stuck and self.status.call == IDLE else None
        )

    def is_overdue(self, root: str, step_s: float, now_s: float, *, closes: bool) -> bool:
        """Whether it is late or silent; `sentence` says how. `closes`: it is ending its episode."""
        self.sentence = self.lateness(root)
        if self.sentence is None and (self.call is not None or closes):
            self.sentence = self.silence(step_s, now_s)
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
