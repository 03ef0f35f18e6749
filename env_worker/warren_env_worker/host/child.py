"""The child process: `python -m warren_env_worker.host.child <module:Class> <cell>`.

It imports the environment, greets the supervisor with a description (or says why there is none),
and then takes calls until the supervisor goes. Nothing that user code prints can reach the
supervisor's channel: standard output is joined to standard error.
"""

import asyncio
import contextlib
import gc
import inspect
import logging
import os
import sys
from typing import Any

from warren.environment import Env
from warren_broker.worker.child import Channel
from warren_env_worker.host.caller import Caller
from warren_env_worker.host.cell import open_cell
from warren_env_worker.host.importing import ImportFailed, import_environment
from warren_env_worker.host.loops import serve_concurrently, serve_one_by_one
from warren_env_worker.host.protocol import Description, Unusable, pack_greeting
from warren_env_worker.host.stage import Stage

_STDOUT, _STDERR = 1, 2
_MAY_BE_ASYNC = ("reset", "step", "close")


def main() -> None:
    channel = Channel.inherited()
    os.dup2(_STDERR, _STDOUT)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    reference, cell = sys.argv[1:]
    try:
        environment = import_environment(reference)
    except ImportFailed as error:
        channel.send(pack_greeting(Unusable(str(error))))
        return
    gc.freeze()  # what was imported stays: no need to look through it again and again
    channel.send(pack_greeting(_description(environment)))
    with contextlib.suppress(ConnectionError):  # the supervisor has gone
        _serve(channel, cell, environment)


def _description(environment: type[Env[Any]]) -> Description:
    limits = environment.limits
    each_s = (limits.load_s, limits.reset_s, limits.step_s)
    return Description(
        name=environment.name or environment.__name__.lower(),
        version=environment.version,
        is_replayable=environment.replayable,
        shortest_s=min(each_s),
        longest_s=max(each_s),
    )


def _serve(channel: Channel, cell: str, environment: type[Env[Any]]) -> None:
    is_async = any(inspect.iscoroutinefunction(getattr(environment, m)) for m in _MAY_BE_ASYNC)
    stage = Stage(environment, Caller(open_cell(cell), is_async=is_async))
    if is_async:
        asyncio.run(serve_concurrently(channel, stage))
    else:
        # What can't be replayed must not be lost with the answers of its neighbours.
        serve_one_by_one(channel, stage, sends_at_once=not environment.replayable)


if __name__ == "__main__":
    main()
