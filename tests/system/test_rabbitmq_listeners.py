"""A listener hears on, whatever becomes of the queue behind it."""

import asyncio
import secrets
from itertools import count

from aio_pika.abc import AbstractChannel
from tests.support.brokers import PATIENCE_S
from tests.support.private_rabbit import PrivateRabbit
from yarl import URL

from warren_broker.port import Broker
from warren_broker.rabbitmq import open_rabbitmq
from warren_broker.rabbitmq.connection.connection import Link
from warren_broker.rabbitmq.consuming.topic_subscriber import TopicSubscriber
from warren_broker.rabbitmq.entities.entities import Entities
from warren_broker.topology import Topic

PREFIX = f"{secrets.token_hex(4)}."
TOPIC = Topic("news")


async def speak(broker: Broker, told: list[bytes]) -> None:
    """Nothing is kept for who is not there: say the newest until somebody has heard it."""
    while True:
        await broker.publish(TOPIC, told[-1], message_id="1")
        await asyncio.sleep(0.05)


async def test_a_listener_whose_queue_was_deleted_takes_another(
    private_rabbit: PrivateRabbit,
) -> None:
    numbers = map(str, count())
    entities, link = Entities(PREFIX), Link(URL(private_rabbit.url), description="RabbitMQ")

    async def delete(channel: AbstractChannel) -> None:
        await (await channel.get_underlay_channel()).queue_delete(
            entities.listener(TOPIC, "0").name
        )

    async with open_rabbitmq(private_rabbit.url, prefix=PREFIX) as broker:
        await link.start(timeout_s=PATIENCE_S)
        listener, told = (
            TopicSubscriber(link, entities, TOPIC, new_name=lambda: next(numbers)),
            [b"before"],
        )
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(listener.subscription.run())
            await listener.subscription.attached()
            speaking = tasks.create_task(speak(broker, told))
            assert (await anext(listener)).body == b"before"
            await link.call(delete)
            told.append(b"after")
            while (await anext(listener)).body != b"after":
                pass
            speaking.cancel()
            keeping.cancel()
        await link.close()
        await broker.delete(TOPIC)
