"""What travels with a body: the headers that we write, and those that the server writes.

`x-warren-id` is the port's message id. The AMQP property `message_id` is left to aiormq, which must
find there something unique among the messages under way on a channel: by it, it tells which of them
came back as unroutable, and duplicates share our id.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from aiormq.abc import DeliveredMessage

ID = "x-warren-id"
PUBLISHED = "x-warren-us"
"""Unix time of the first publishing, in microseconds."""
N_BEFORE = "x-warren-deliveries"
"""Deliveries before the message was published again."""
REQUEUED = "x-warren-requeued"
"""How often the message was sent home from `dead`."""
REASON = "x-warren-reason"
"""Of a dead letter."""
OFFSET = "x-stream-offset"
_RETURNS = "x-delivery-count"
_TAKEN = "x-acquired-count"
"""RabbitMQ 4 counts deliveries that ended with a lost connection only here."""
_DEATHS = "x-death"
_OURS = "x-warren-"

Headers = Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message and where it goes."""

    exchange: str
    routing_key: str
    body: bytes
    headers: Headers
    is_mandatory: bool = True
    has_route_grace: bool = True
    """Whether "no route" can be a matter of time."""


def new_headers(message_id: str) -> dict[str, str | int]:
    return {ID: message_id, PUBLISHED: time.time_ns() // 1_000}


def kept_headers(message: DeliveredMessage) -> dict[str, str | int]:
    """The headers that stay when a message is published again."""
    return {
        name: value
        for name, value in _headers(message).items()
        if isinstance(value, (str, int))
        and (not name.startswith("x-") or name.startswith(_OURS))
        and name not in (N_BEFORE, REASON)
    }


def id_of(message: DeliveredMessage) -> str:
    """The port's id; what other clients send gets one from its property or its content."""
    found = _headers(message).get(ID) or message.header.properties.message_id
    return str(found) if found else hashlib.sha256(message.body).hexdigest()[:32]


def n_deliveries_of(message: DeliveredMessage) -> int:
    """This delivery included."""
    headers = _headers(message)
    at_server = max(_integer(headers.get(_RETURNS)), _integer(headers.get(_TAKEN)))
    return _integer(headers.get(N_BEFORE)) + at_server + 1


def offset_of(message: DeliveredMessage) -> int:
    return _integer(_headers(message).get(OFFSET))


def published_s(message: DeliveredMessage) -> float | None:
    """Unix time of the first publishing; None when another client sent it."""
    found = _headers(message).get(PUBLISHED)
    return found / 1e6 if isinstance(found, int) else None


def n_requeued_of(message: DeliveredMessage) -> int:
    return _integer(_headers(message).get(REQUEUED))


def reason_of(message: DeliveredMessage) -> str | None:
    """Our own reason for giving up, if it was us."""
    found = _headers(message).get(REASON)
    return str(found) if found is not None else None


def was_lettered(message: DeliveredMessage) -> bool:
    """Whether the server has moved it on from a home or a retry queue."""
    return bool(_headers(message).get(_DEATHS))


def _headers(message: DeliveredMessage) -> Mapping[str, object]:
    return cast("Mapping[str, object]", message.header.properties.headers or {})


def _integer(value: object) -> int:
    return value if isinstance(value, int) else 0
