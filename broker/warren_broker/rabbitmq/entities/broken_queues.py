"""Queues of which the server has lost half, because it was killed while it made them.

RabbitMQ 3.10 writes down that a quorum queue is there, makes it, and writes down a second later whose
log it is. Killed in between, it comes up with one that never expires, looks well when it is declared or
looked at, and is of no use:

- one that is `GONE` has no process (`down` in `rabbitmqctl list_queues name state`): publishing to it is
  refused as if it were full, and taking from it costs whoever tries the connection;
- one that is `MUTE` has a process that was begun from nothing and waits for ever to be led (`running`):
  it neither confirms nor refuses what is published to it, and taking from it gets no answer.

Either holds nothing, and can be deleted. What else has no process or gives no answer, say in a cluster
without a majority, may come back with its messages: only who knows more of a queue may delete it.

Invariants:
- Only what has just proved to be broken is called so; one that can't be asked is left alone.
- The question is asked on a connection of its own, since a broken queue answers by ending it.
"""

import asyncio
import logging
from enum import Enum

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity
from aiormq.exceptions import ConnectionInternalError
from pamqp.commands import Basic

from warren_broker.rabbitmq.connection.connection import CALL_S, Link
from warren_broker.rabbitmq.connection.failures import Lost, amqp

_NO_PROCESS = "noproc"
"""In what the server says of a queue none of whose processes is there, on any node."""

log = logging.getLogger(__name__)


class Condition(Enum):
    WHOLE = "is whole"
    MISSING = "is not there"
    GONE = "was lost by the server all but its name"
    MUTE = "gives no answer"


async def ask(link: Link, name: str, *, timeout_s: float = CALL_S) -> Condition:
    """How the queue (its name at the server) is; raises `BrokerUnavailable`.

    One that lives and has no consumer begins its time until it is forgotten anew.
    """

    async def run(_: AbstractChannel) -> Condition:
        try:
            return await _take_and_return(link, name)
        except ChannelNotFoundEntity:
            return Condition.MISSING
        except Lost as error:
            if not _tells_of_none(error):
                raise
            return Condition.GONE

    return await link.call(run, timeout_s=timeout_s)


async def remove(link: Link, name: str, condition: Condition) -> None:
    """Delete a broken queue; raises `BrokerUnavailable`."""

    async def run(channel: AbstractChannel) -> None:
        await (await channel.get_underlay_channel()).queue_delete(name)

    log.warning("%s %s; it is deleted", name, condition.value)
    await link.call(run)


async def _take_and_return(link: Link, name: str) -> Condition:
    """Try to get a message and put it back: a look alone is no use to the server, and tells nothing."""
    connection = await link.dial()
    try:
        with amqp():
            frames = await (await connection.channel()).get_underlay_channel()
            limit = asyncio.timeout(link.timings.answer_s)
            try:
                async with limit:
                    message = await frames.basic_get(name)
            except TimeoutError:
                if limit.expired():
                    return Condition.MUTE
                raise  # the network's own
            if isinstance(message.delivery, Basic.GetOk):
                await frames.basic_nack(message.delivery_tag or 0, requeue=True)
    finally:
        await link.hang_up(connection)
    return Condition.WHOLE


def _tells_of_none(error: Lost) -> bool:
    return isinstance(error.__cause__, ConnectionInternalError) and _NO_PROCESS in str(error)
