"""What runs in an episode's process: calls of one episode, and after its end those of the next.

Invariants: there is at most one live episode here. An answer is sent before its episode is closed,
so that a `close` that hangs or crashes can't take the outcome with it. The next episode comes only
after one that ended well, was closed and left nothing behind; else the process ends.
"""

import contextlib
import contextvars
import sys
from typing import Any

from warren.environment import Env
from warren_broker.worker.child import Channel
from warren_env_worker.host.driven import driven
from warren_env_worker.host.forked.fresh import Memory
from warren_env_worker.host.forked.leftovers import Leftovers
from warren_env_worker.host.forked.told import Closed, pack_closed
from warren_env_worker.host.protocol import Call, Observed, pack_answers, unpack
from warren_env_worker.host.stage import Stage, is_last


def play_one(channel: Channel, stage: Stage) -> None:
    """One episode, from its start to its end."""
    _Turns(channel, stage).play()


def play_in_turn(
    channel: Channel, stage: Stage, memory: Memory, environment: type[Env[Any]], began_s: float
) -> None:
    """One episode after the other, as many as the class allows, until the fork server hangs up."""
    turns = _Turns(channel, stage)
    leftovers = Leftovers(environment, memory, began_s)
    for n_left in reversed(range(environment.limits.episodes_per_process)):
        if not turns.play() or n_left == 0:
            return
        leftover = leftovers.found()
        channel.send(pack_closed(Closed(leftover)))
        if leftover is not None:
            return


class _Turns:
    def __init__(self, channel: Channel, stage: Stage) -> None:
        self._channel = channel
        self._stage = stage

    def play(self) -> bool:
        """Whether an episode ended well, with its process as far as that tells."""
        context = contextvars.copy_context()
        while (frame := self._channel.receive()) is not None:
            for call in unpack(frame):
                was_last = self._take(call, context)
                if was_last is not None:
                    return was_last
        return False

    def _take(self, call: Call, context: contextvars.Context) -> bool | None:
        """Whether it ended well, if this was the last call of its episode."""
        answer = context.run(driven, self._stage.take(call))
        self._channel.send(pack_answers([answer]))
        if not is_last(call, answer):
            return None
        is_closed = context.run(driven, self._stage.close(call))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(ValueError):  # the episode has closed it
                stream.flush()
        return is_closed and isinstance(answer, Observed)
