"""The many ways in which aio-pika says that a call came to nothing, told apart.

A lost connection shows as `CancelledError`, `RuntimeError`, `OSError`, `AMQPError`, `TimeoutError`…,
depending on which line was waiting for what, and as `Exception` itself where aiormq closes without a cause. Here all
of them become `Lost`; a cancellation that somebody asked of the current task stays one. Refusals keep their own type: no such entity, declared
with other arguments, returned as unroutable, refused because the queue is full.
"""

import asyncio
import logging
from collections.abc import Awaitable, Generator
from contextlib import contextmanager

from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
)

SETTLE_S = 5.0
"""How long an ack may take to get onto the wire."""

_BOOTING = ("is down or inaccessible", "does not have a replica on the local node")
"""What a server that has just started says of queues and of streams that are there and not up yet."""

log = logging.getLogger(__name__)


class Lost(Exception):
    """The connection or channel was lost, or gave no answer in time; what it did is unknown."""


@contextmanager
def amqp() -> Generator[None]:
    """Raise `Lost` for whatever means that the connection is of no use."""
    try:
        yield
    except asyncio.CancelledError as error:
        if _is_ours():
            raise
        raise Lost("the connection was lost") from error
    except (ChannelNotFoundEntity, ChannelPreconditionFailed) as error:
        if any(words in str(error) for words in _BOOTING):
            raise Lost(str(error)) from error
        raise
    except DeliveryError:
        raise
    except (*CONNECTION_EXCEPTIONS, EOFError, TimeoutError) as error:
        raise Lost(str(error) or type(error).__name__) from error
    except Exception as error:
        if type(error) is not Exception:
            raise
        raise Lost("the connection was closed") from error


async def settle(action: Awaitable[object]) -> None:
    """Send an ack or nack. If the connection is lost the message comes again, so that is no error."""
    try:
        with amqp():
            async with asyncio.timeout(SETTLE_S):
                await action
    except Lost as error:
        log.debug("not settled: %s", error)


def _is_ours() -> bool:
    """Whether somebody cancelled the current task, as opposed to a future that it awaits."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
