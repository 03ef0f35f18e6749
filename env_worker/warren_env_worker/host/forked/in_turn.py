"""What runs in an episode's process: calls of one episode, and after its end those of the next.

Invariants: there is at most one live episode here. An answer is sent before a class's own `close` is
called, so that one that hangs or crashes can't take the outcome with it. The next episode comes only
after one that ended well, was closed and left nothing behind; else the process ends. A stateless call
is an episode to itself: it brings its episode from the start, and nothing of it is kept.
"""

import contextlib
import contextvars
import sys
import time

from warren_env_worker.host.call_status import CallStatus
from warren_env_worker.host.child.live_episodes import LiveEpisodes, is_last
from warren_env_worker.host.driven import driven
from warren_env_worker.host.forked.leftovers import Leftovers
from warren_env_worker.host.forked.messages import Closed, pack_closed
from warren_env_worker.host.forked.server import Server
from warren_env_worker.host.protocol import Answer, Call, Observed, Refused, pack_answers

MAX_DELAY_S = 0.005
"""So long an answer may wait for those behind it."""


def play_one(server: Server, episodes: LiveEpisodes) -> None:
    """One episode, from its start to its end."""
    ended = _played(server, episodes, [])
    if ended is not None:
        call, answer, _ = ended
        server.send(pack_answers([answer]))
        driven(episodes.close(call))


class InTurn:
    """Episodes one after the other, as many as this process may play."""

    def __init__(
        self,
        server: Server,
        status: CallStatus,
        episodes: LiveEpisodes,
        leftovers: Leftovers,
        *,
        n_episodes: int,
        has_close: bool,
    ) -> None:
        self._server = server
        self._status = status
        self._episodes = episodes
        self._leftovers = leftovers
        self._n_left = n_episodes
        self._has_close = has_close

    def play(self) -> None:
        """Until the fork server hangs up, or this process is to be replaced."""
        while (calls := self._server.calls()) is not None:
            is_stateless = bool(calls) and calls[0].is_stateless
            play = self._play_stateless if is_stateless else self._play_live
            if calls and not play(calls):
                return

    def _play_live(self, calls: list[Call]) -> bool:
        """One episode that begins with these calls; whether the next one may come.

        What a class without a `close` of its own leaves behind is told together with its last answer,
        which spares this process to be woken twice.
        """
        self._n_left -= 1
        ended = _played(self._server, self._episodes, calls)
        if ended is None:
            return False
        call, answer, context = ended
        last = pack_answers([answer])
        is_reusable = isinstance(answer, Observed) and self._n_left > 0
        if self._has_close or not is_reusable:
            self._server.send(last)
        is_closed = context.run(driven, self._episodes.close(call))
        del ended, context
        _flush()
        if not (is_closed and is_reusable):
            return False
        leftover = self._leftovers.found()
        closed = pack_closed(Closed(leftover))
        self._server.send(closed) if self._has_close else self._server.send(last, closed)
        return leftover is None

    def _play_stateless(self, calls: list[Call]) -> bool:
        """Each call; whether other episodes may come.

        After one that fails or leaves something behind, the rest is for a fresh process. What is
        answered is sent in time, so that a slow call keeps none of those before it.
        """
        answers, sent_s, leftover = list[Answer](), time.monotonic(), None
        for call in calls:
            self._n_left -= 1
            answer, leftover = self._answered(call)
            answers.append(answer)
            if isinstance(answer, Refused) or leftover is not None:
                self._n_left = 0
                break
            if time.monotonic() - sent_s > MAX_DELAY_S:
                self._server.send(pack_answers(answers))
                answers, sent_s = list[Answer](), time.monotonic()
        is_reusable = self._n_left > 0
        closed = [pack_closed(Closed(leftover))] if is_reusable or leftover is not None else []
        self._server.send(pack_answers(answers), *closed)
        return is_reusable

    def _answered(self, call: Call) -> tuple[Answer, str | None]:
        """And what its episode left behind."""
        self._status.begin_call(call.id)
        answer = contextvars.copy_context().run(driven, self._episodes.take(call))
        self._episodes.forget_episode(call)
        _flush()
        return answer, self._leftovers.found() if isinstance(answer, Observed) else None


def _played(
    server: Server, episodes: LiveEpisodes, begun: list[Call]
) -> tuple[Call, Answer, contextvars.Context] | None:
    """One episode up to its last call and the answer, which was not sent; None if it has no end."""
    context = contextvars.copy_context()
    calls: list[Call] | None = begun
    while calls is not None:
        for call in calls:
            answer = context.run(driven, episodes.take(call))
            if is_last(call, answer):
                return call, answer, context
            server.send(pack_answers([answer]))
        calls = server.calls()
    return None


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError):  # the episode has closed it
            stream.flush()
