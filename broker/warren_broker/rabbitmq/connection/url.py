"""URLs of RabbitMQ servers."""

from yarl import URL

from warren_broker.errors import InvalidBrokerUrl

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671}


def checked(url: str, heartbeat_s: int) -> URL:
    """The URL with its defaults filled in. Raises `InvalidBrokerUrl` if it can't be one."""
    parsed = URL(url)
    if parsed.scheme not in DEFAULT_PORTS or not parsed.host:
        raise InvalidBrokerUrl("a RabbitMQ URL looks like amqp://user:password@host:5672/vhost")
    parsed = parsed.with_port(parsed.port or DEFAULT_PORTS[parsed.scheme])
    return parsed.update_query({"heartbeat": str(heartbeat_s), **parsed.query})


def named(url: URL, name: str) -> URL:
    """What the server shows as the connection's name."""
    return url.update_query({"name": name})
