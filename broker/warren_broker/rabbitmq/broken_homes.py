"""Homes of which the server has kept nothing but the name.

RabbitMQ 3.10 writes down that a quorum queue is there before it makes it. Killed in between it comes up
with a queue that has no process and never expires (`down` in `rabbitmqctl list_queues name state`):
looking at it and declaring it go well, publishing to it is refused as if it were full, and taking from
it costs whoever tries the connection. It holds nothing, takes nothing, and can be deleted.

Invariants:
- Only a home that has just proved to be broken is deleted: one that lives loses no message, and one
  that can't be asked is left alone.
- The question is asked on a connection of its own, since a broken home answers by ending it.
"""

import logging

from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import ChannelNotFoundEntity
from aiormq.exceptions import ConnectionInternalError
from pamqp.commands import Basic

from warren_broker.rabbitmq.connection import CALL_S, Link, hang_up
from warren_broker.rabbitmq.failures import Lost, amqp

_NO_PROCESS = "noproc"
"""In what the server says of a queue none of whose processes is there, on any node."""

log = logging.getLogger(__name__)


async def lives(link: Link, name: str, *, timeout_s: float = CALL_S) -> bool:
    """Whether there is such a home (its name at the server); one that is broken is deleted.

    One that lives and has no consumer begins its time until it is forgotten anew. Raises
    `BrokerUnavailable`.
    """

    async def run(channel: AbstractChannel) -> bool:
        try:
            await _take_and_return(link, name)
        except ChannelNotFoundEntity:
            return False
        except Lost as error:
            if not _tells_of_broken(error):
                raise
        else:
            return True
        log.warning("%s was lost by the server all but its name; it is deleted", name)
        await (await channel.get_underlay_channel()).queue_delete(name)
        return False

    return await link.call(run, timeout_s=timeout_s)


async def _take_and_return(link: Link, name: str) -> None:
    """Try to get a message and put it back: a look alone is no use to the server, and tells nothing."""
    connection = await link.dial()
    try:
        with amqp():
            frames = await (await connection.channel()).get_underlay_channel()
            message = await frames.basic_get(name)
            if isinstance(message.delivery, Basic.GetOk):
                await frames.basic_nack(message.delivery_tag or 0, requeue=True)
    finally:
        await hang_up(connection)


def _tells_of_broken(error: Lost) -> bool:
    return isinstance(error.__cause__, ConnectionInternalError) and _NO_PROCESS in str(error)
