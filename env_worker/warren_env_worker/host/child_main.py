"""The child process: `python -m warren_env_worker.host.child_main`; its arguments are `module:Class`
and a cell.

It imports the environment, greets the supervisor with a description (or says why there is none),
and then takes calls until the supervisor goes. Nothing that user code prints can reach the
supervisor's channel: standard output is joined to standard error. Values of secrets are cut out.

It leaves without ending the interpreter: threads of what was imported may need that until their last
moment, and abort the process (those of pydantic-monty do, now and then).
"""

import contextlib
import gc
import importlib
import logging
import os
import sys
from typing import Any

from warren.environment import Env, Isolation
from warren_broker.worker.channel import Channel
from warren_env_worker.host.call_status import open_status
from warren_env_worker.host.child.loops import is_async, serve
from warren_env_worker.host.child.open_files import raise_open_files_limit
from warren_env_worker.host.child.task_cache import TaskCache
from warren_env_worker.host.environment_class.boxes import why_no_box
from warren_env_worker.host.environment_class.describing import describe
from warren_env_worker.host.environment_class.importing import ImportFailed, import_environment
from warren_env_worker.host.forked.fork_server import ForkServer
from warren_env_worker.host.protocol import Unusable, pack_greeting
from warren_env_worker.host_services.connecting import front
from warren_env_worker.output.stack import answer_signals
from warren_env_worker.permissions.permissions import confine
from warren_env_worker.permissions.secrets import WithoutSecrets

_STDOUT, _STDERR = 1, 2


def main() -> None:
    channel = Channel.inherited()
    os.dup2(_STDERR, _STDOUT)
    sys.stdout = sys.stderr = WithoutSecrets.before(sys.stderr)
    answer_signals(_STDERR)  # what is forked from here answers, too
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    reference, status, descriptor = channel.arguments
    front.inherit(int(descriptor))
    raise_open_files_limit()
    confine()
    with contextlib.suppress(ConnectionError):  # the supervisor has gone, maybe while we imported
        _live(channel, reference, status)
    with contextlib.suppress(ValueError):  # user code has closed it
        sys.stdout.flush()
    os._exit(0)


def _live(channel: Channel, reference: str, status: str) -> None:
    try:
        environment = import_environment(reference)
    except ImportFailed as error:
        channel.send(pack_greeting(Unusable(str(error))))
        return
    if why := why_no_box(environment):
        channel.send(pack_greeting(Unusable(f"{reference}: {why}")))
        return
    if agents := sys.modules.get("warren.agents.environment"):  # as an agent's environment has
        importlib.import_module(agents.ENDPOINT)  # once, and not in the process of each episode
    gc.freeze()  # what was imported stays: no need to look through it again and again
    channel.send(pack_greeting(describe(environment)))
    _serve(channel, status, environment)


def _serve(channel: Channel, status: str, environment: type[Env[Any]]) -> None:
    isolation = _isolation(environment)
    if isolation == "shared":
        serve(channel, open_status(status), environment, TaskCache(environment))
    else:
        reuses = isolation == "process" and not is_async(environment)
        ForkServer(channel.detach(), open_status(status), environment, reuses=reuses).serve()


def _isolation(environment: type[Env[Any]]) -> Isolation:
    return environment.isolation or ("shared" if is_async(environment) else "process")


if __name__ == "__main__":
    main()
