"""What runs in an episode's process: calls of one episode, and after its end those of the next.

Invariants: there is at most one live episode here. An answer is sent before a class's own `close` is
called, so that one that hangs or crashes can't take the outcome with it. The next episode comes only
after one that ended well, was closed and left nothing behind; else the process ends.
"""

import contextlib
import contextvars
import sys

from warren_env_worker.host.child.live_episodes import LiveEpisodes, is_last
from warren_env_worker.host.driven import driven
from warren_env_worker.host.forked.leftovers import Leftovers
from warren_env_worker.host.forked.server import Server
from warren_env_worker.host.forked.told import Closed, pack_closed
from warren_env_worker.host.protocol import Answer, Call, Observed, pack_answers


def play_one(server: Server, episodes: LiveEpisodes) -> None:
    """One episode, from its start to its end."""
    ended = _played(server, episodes)
    if ended is not None:
        call, answer, _ = ended
        server.send(pack_answers([answer]))
        driven(episodes.close(call))


def play_in_turn(
    server: Server,
    episodes: LiveEpisodes,
    leftovers: Leftovers,
    *,
    n_episodes: int,
    has_close: bool,
) -> None:
    """So many episodes at most, one after the other, until the fork server hangs up.

    What a class without a `close` of its own leaves behind is told together with its last answer,
    which spares this process to be woken twice.
    """
    for n_left in reversed(range(n_episodes)):
        ended = _played(server, episodes)
        if ended is None:
            return
        call, answer, context = ended
        last = pack_answers([answer])
        is_reusable = isinstance(answer, Observed) and n_left > 0
        if has_close or not is_reusable:
            server.send(last)
        is_closed = context.run(driven, episodes.close(call))
        del ended, context
        _flush()
        if not (is_closed and is_reusable):
            return
        leftover = leftovers.found()
        closed = pack_closed(Closed(leftover))
        server.send(closed) if has_close else server.send(last, closed)
        if leftover is not None:
            return


def _played(
    server: Server, episodes: LiveEpisodes
) -> tuple[Call, Answer, contextvars.Context] | None:
    """One episode up to its last call and the answer, which was not sent; None if it has no end."""
    context = contextvars.copy_context()
    while (calls := server.calls()) is not None:
        for call in calls:
            answer = context.run(driven, episodes.take(call))
            if is_last(call, answer):
                return call, answer, context
            server.send(pack_answers([answer]))
    return None


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError):  # the episode has closed it
            stream.flush()
