"""What an address is made of at the server: pure data, no calls.

Only what every RabbitMQ from 3.10 to 4.x accepts (a unit test enforces it): durable or exclusive, an
explicit queue type, no priorities, no queue modes, no per-queue consumer timeouts. Arguments never
depend on anything but the address, because declaring with other arguments is an error.

- A work queue is a quorum queue. What is given up goes through the fanout exchange `lost` to the
  quorum queue `dead`, published by the consumer that gives it up (see `queue_consumer`). The server
  gives nothing up: on RabbitMQ 3.10 a queue that dead-letters at-least-once and is deleted within
  moments of its leader's election takes the dead-lettering of the whole node down with it, for good.
  So only queues that nobody deletes dead-letter: homes and retry queues, at-least-once, so that a
  crash in between loses nothing.
- A home is a quorum queue whose messages live `grace_s`; then they go through the exchange `return`
  to the fallback. A classic queue would not do: it drops them when the server restarts and the
  fallback has no leader yet. The home is forgotten after its `expires_s` without a consumer, which is
  longer than the 180 s after which a server tries again what it could not dead-letter while it booted.
- `return` leads back to work queues by their name; what finds none goes to `lost`.
- A retry queue holds messages for one delay and hands them to `return` with the name of their origin
  as routing key. One queue for each delay, because a message expires only at the head.
- `dead` has a delivery limit that nobody reaches: looking at dead letters counts as delivering them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from warren_broker.rabbitmq.connection.timings import VISIT_S
from warren_broker.topic_event import MAX_UNSEEN
from warren_broker.topology import DEAD, Address, Home, Stream, Topic, WorkQueue

RETRY_DELAYS_S = (0.25, 1.0, 4.0, 15.0, 60.0, 300.0, 1800.0)
"""A delay is rounded up to one of these; a longer one becomes the last."""
UNLIMITED = 1_000_000_000
_MAX_SEGMENT_BYTES = 250_000_000
_MIN_SEGMENT_BYTES = 1_000_000

REPAIR_VISITS = WorkQueue("queue-repair")
"""The names of new queues (`queue_repair`)."""

Arguments = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class ExchangeEntity:
    name: str
    kind: str
    arguments: Arguments = field(default_factory=dict[str, str | int])


@dataclass(frozen=True, slots=True)
class QueueEntity:
    name: str
    arguments: Arguments
    bindings: tuple[tuple[str, str], ...] = ()
    """Pairs of exchange and routing key."""
    is_exclusive: bool = False


Entity = ExchangeEntity | QueueEntity


class Entities:
    """The entities behind each address, all under one name prefix."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self.lost = f"{prefix}lost"
        self.back = f"{prefix}return"

    def name(self, address: Address) -> str:
        """Of the queue, or of a topic's exchange."""
        if isinstance(address, Topic):
            return f"{self._prefix}topic.{address.name}"
        return f"{self._prefix}{address.name}"

    def base(self) -> list[Entity]:
        """What every other entity leans on."""
        lost = ExchangeEntity(self.lost, "fanout")
        back = ExchangeEntity(self.back, "direct", {"alternate-exchange": self.lost})
        return [
            lost,
            back,
            *self.retry(VISIT_S),
            self._work_queue(REPAIR_VISITS),
            self._dead(),
        ]

    def of(self, address: Address) -> Sequence[Entity]:
        """In the order in which they must be declared."""
        match address:
            case WorkQueue():
                return [self._dead() if address.name == DEAD.name else self._work_queue(address)]
            case Home():
                return [self._work_queue(address.fallback), self._home(address)]
            case Stream():
                return [self.stream(address)]
            case Topic():
                return [ExchangeEntity(self.name(address), "fanout")]

    def retry(self, delay_s: float) -> Sequence[Entity]:
        """The exchange and the queue that hold messages for `delay_s`, a step of the ladder."""
        name = self.retry_name(delay_s)
        arguments: Arguments = {
            "x-queue-type": "quorum",
            "x-overflow": "reject-publish",
            "x-max-length": UNLIMITED,
            "x-message-ttl": _milliseconds(delay_s),
            "x-delivery-limit": UNLIMITED,
            "x-dead-letter-exchange": self.back,
            "x-dead-letter-strategy": "at-least-once",
        }
        return [ExchangeEntity(name, "fanout"), QueueEntity(name, arguments, ((name, ""),))]

    def retry_name(self, delay_s: float) -> str:
        return f"{self._prefix}retry.{_milliseconds(delay_s)}ms"

    def listener(self, topic: Topic, unique: str) -> QueueEntity:
        """The queue of one listener; it ends with its connection."""
        exchange = self.name(topic)
        arguments: Arguments = {"x-queue-type": "classic", "x-max-length": MAX_UNSEEN}
        return QueueEntity(f"{exchange}.{unique}", arguments, ((exchange, ""),), is_exclusive=True)

    def origin(self, queue_name: str) -> str:
        """The address name of a queue at the server."""
        return queue_name.removeprefix(self._prefix)

    def _work_queue(self, queue: WorkQueue) -> QueueEntity:
        name = self.name(queue)
        arguments: Arguments = {
            "x-queue-type": "quorum",
            "x-max-length": queue.max_messages,
            "x-overflow": "reject-publish",
            "x-delivery-limit": UNLIMITED,
        }
        if queue.expires_s is not None:
            arguments["x-expires"] = _milliseconds(queue.expires_s)
        return QueueEntity(name, arguments, ((self.back, name),))

    def _home(self, home: Home) -> QueueEntity:
        arguments: Arguments = {
            "x-queue-type": "quorum",
            "x-max-length": home.max_messages,
            "x-overflow": "reject-publish",
            "x-delivery-limit": UNLIMITED,
            "x-message-ttl": _milliseconds(home.grace_s),
            "x-expires": _milliseconds(home.expires_s),
            "x-dead-letter-exchange": self.back,
            "x-dead-letter-routing-key": self.name(home.fallback),
            "x-dead-letter-strategy": "at-least-once",
        }
        return QueueEntity(self.name(home), arguments)

    def stream(self, stream: Stream) -> QueueEntity:
        segment_bytes = min(max(stream.max_size_bytes // 8, _MIN_SEGMENT_BYTES), _MAX_SEGMENT_BYTES)
        arguments: Arguments = {
            "x-queue-type": "stream",
            "x-max-age": f"{max(1, round(stream.max_age_s))}s",
            "x-max-length-bytes": stream.max_size_bytes,
            "x-stream-max-segment-size-bytes": segment_bytes,
        }
        return QueueEntity(self.name(stream), arguments)

    def _dead(self) -> QueueEntity:
        name = self.name(DEAD)
        arguments: Arguments = {
            "x-queue-type": "quorum",
            "x-max-length": DEAD.max_messages,
            "x-overflow": "drop-head",
            "x-delivery-limit": UNLIMITED,
        }
        return QueueEntity(name, arguments, ((self.lost, ""), (self.back, name)))


def retry_delay_s(delay_s: float) -> float:
    """The step of the ladder for a delay that is asked for."""
    return next((step for step in RETRY_DELAYS_S if step >= delay_s), RETRY_DELAYS_S[-1])


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
