"""How a program of ours runs: its log, its event loop and stop signals, and how it fails.

Invariant: a failure that is foreseen leaves as a `WarrenError`, which says what to do next; any other
is logged with its traceback before it leaves.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from importlib.util import find_spec
from typing import cast

from warren_broker.worker.credentials import hide_credentials
from warren_broker.worker.lifecycle import until_stopped
from warren_schemas.errors import WarrenError

_OURS = ("warren", "warren_broker", "warren_env_worker", "warren_gateway", "warren_gpu_worker")

log = logging.getLogger(__name__)

Hints = Mapping[type[Exception], str | None]
"""What to do about each failure that is foreseen; the first kind that is found counts."""


def run_program(
    serve: Callable[[], Coroutine[object, None, None]], hints: Hints, logged: Sequence[str] = ()
) -> None:
    """Serve until a stop signal comes. `logged` names more loggers whose INFO is shown.

    Raises `WarrenError` for what `hints` names, also where it comes out of a group of tasks.
    """
    hide_credentials()
    _configure_logs((*_OURS, *logged))
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(until_stopped(serve()))
    except Exception as error:
        for kind, hint in hints.items():
            if found := _first(error, kind):
                raise WarrenError(" ".join(str(found).split()), hint=hint) from error
        if isinstance(error, ExceptionGroup):
            log.exception("the program broke down")
        raise


def _configure_logs(shown: Sequence[str]) -> None:
    """These from INFO on, others from WARNING on."""
    logging.basicConfig(format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    for name in shown:
        logging.getLogger(name).setLevel(logging.INFO)
    logging.getLogger("aiormq").setLevel(logging.CRITICAL)  # its failures are told by our own words


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The faster loop comes with the broker's client; an env worker reaches a gateway without it."""
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop


def _first(error: Exception, kind: type[Exception]) -> Exception | None:
    """The first error of this kind in what may be a group of groups."""
    if isinstance(error, ExceptionGroup):
        below = cast("ExceptionGroup[Exception]", error).exceptions
        return next((found for e in below if (found := _first(e, kind))), None)
    return error if isinstance(error, kind) else None
