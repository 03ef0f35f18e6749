"""From a URL to a broker.

Who can't connect learns it within seconds, from a sentence that names the broker (never its
password) and what to do next.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from warren_broker.errors import InvalidBrokerUrl
from warren_broker.memory import open_memory
from warren_broker.port import Broker

EXAMPLES = "amqp://user:password@host:5672/vhost, amqps://host, memory: or memory:/data/folder"


@asynccontextmanager
async def open_broker(url: str, *, name: str) -> AsyncGenerator[Broker]:
    """The broker at `url`, for the part of the system called `name`; closed on leaving.

    `memory:` is a broker in this process alone: parts that should share one use `memory.open_hub`.
    Raises `InvalidBrokerUrl`, or `BrokerUnavailable` when nobody answers there.
    """
    scheme = _scheme(url)
    if scheme == "memory":
        folder = url.partition(":")[2]
        async with open_memory(Path(folder) if folder else None, name=name) as broker:
            yield broker
    elif scheme in ("amqp", "amqps"):
        from warren_broker.rabbitmq import open_rabbitmq  # not everybody has aio-pika

        async with open_rabbitmq(url, name=name) as broker:
            yield broker
    else:
        raise InvalidBrokerUrl(f"{without_password(url)!r} is no broker URL; try {EXAMPLES}")


def _scheme(url: str) -> str:
    """In lower case; empty where the URL can't be read, or names an impossible port."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return ""
    return parts.scheme


def without_password(url: str) -> str:
    """The URL as it may be shown to people."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return url.partition("//")[0] + "//…"
    return url.replace(f":{password}@", ":***@") if password else url
