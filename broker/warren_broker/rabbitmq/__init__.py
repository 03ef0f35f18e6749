"""The broker port on RabbitMQ 3.10 and later, by aio-pika.

`broker` puts the parts together: `connection` heals lost connections, `publisher` publishes with
confirms, `subscription` keeps a consumer alive, with one module for each kind of consumer
(`queue_consumer`, `home_consumer`, `stream_reader`, `topic_subscriber`); `entities` says what is
declared at the server, `declared_entities` keeps it declared, `dead_letters` looks after what was given up.
"""

from warren_broker.rabbitmq.broker import RabbitBroker, open_rabbitmq
from warren_broker.rabbitmq.connection.timings import Timings

__all__ = ["RabbitBroker", "Timings", "open_rabbitmq"]
