"""Answers on their way to the supervisor: as many in a frame as are ready.

Invariant: a finished answer never waits long for a slow call behind it; what is not sent after
`MAX_DELAY_S` is sent by a thread of its own while user code runs.
"""

import os
import threading
import time

from warren_broker.worker.channel import Channel
from warren_env_worker.host.protocol import Answer, pack_answers

MAX_DELAY_S = 0.005


class Answers:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._ready: list[Answer] = []
        self._lock = threading.Lock()

    def add(self, answer: Answer) -> None:
        with self._lock:
            self._ready.append(answer)

    def flush(self) -> None:
        with self._lock:
            ready, self._ready = self._ready, []
            if ready:
                self._send(pack_answers(ready))

    def _send(self, frame: bytes) -> None:
        try:
            self._channel.send(frame)
        except ConnectionError:
            os._exit(0)  # the supervisor has gone: there is nobody to answer


class Flusher:
    """The thread that sends what is ready, again and again, between `begin` and `end`."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._is_working = threading.Event()
        threading.Thread(target=self._run, name="flusher", daemon=True).start()

    def begin(self) -> None:
        self._is_working.set()

    def end(self) -> None:
        self._is_working.clear()

    def _run(self) -> None:
        while self._is_working.wait():
            time.sleep(MAX_DELAY_S)
            self._answers.flush()
