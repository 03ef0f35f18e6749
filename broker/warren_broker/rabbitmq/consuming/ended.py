"""What becomes of a consumer whose task has ended."""

import asyncio
import logging

from warren_broker.errors import BrokerError
from warren_broker.rabbitmq.consuming.queue_consumer import QueueConsumer
from warren_broker.rabbitmq.consuming.stream_reader import StreamReader
from warren_broker.rabbitmq.consuming.topic_subscriber import TopicSubscriber

log = logging.getLogger(__name__)


def ended(
    consumer: QueueConsumer | StreamReader | TopicSubscriber, task: asyncio.Task[None]
) -> None:
    """A consumer whose task broke must not wait for ever."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        log.error("a consumer broke", exc_info=error)
        consumer.subscription.fail(BrokerError(f"the consumer broke: {error!r}"))
