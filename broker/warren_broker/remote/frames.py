"""What the two ends of a remote worker's WebSocket say to each other.

    4 bytes   length of the header, u32 little-endian
    header    JSON, one of the frames below
    body      a message as the broker carries it; only behind `publish`, `give_up` and `delivered`

A worker begins with `hello` and is answered `welcome`. Calls carry a number of the caller's and are
answered by `done` or `failed` with the same number. `settle` is not answered, as an ack in AMQP is
not. Whatever does not read as one of these frames ends the session.
"""

import struct
from typing import Annotated, Literal, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from warren_broker.topology import Address, Home, Stream, Topic, WorkQueue
from warren_schemas.base import Frozen
from warren_schemas.codec.frame import MAX_MESSAGE_BYTES
from warren_schemas.text.explain import explain

PROTOCOL = 1
PATH = "/v1/env-workers/connect"
WORKER_HEADER = "Warren-Worker"
"""Of the request: whose place in the budget it is, so that a worker that comes back inherits its own."""
MAX_FRAME_BYTES = MAX_MESSAGE_BYTES + 64 * 1024
HEARTBEAT_S = 10.0
"""A side that hears nothing for this long pings, and hangs up when nothing comes for half as long."""
MAX_PREFETCH = 1000
_MAX_TEXT = 2000

MALFORMED, OUT_OF_ORDER, REPLACED, REVOKED, TOO_MUCH, WRONG_PROTOCOL = range(4400, 4406)
"""Codes with which the gateway ends a session, beside those of RFC 6455."""
REFUSALS = frozenset((REVOKED, WRONG_PROTOCOL))
"""Those after which coming back would lead to the same."""

_LENGTH = struct.Struct("<I")

Id = Annotated[int, Field(ge=0, lt=2**53)]
Text = Annotated[str, Field(max_length=_MAX_TEXT)]
EntityName = Annotated[str, Field(min_length=1, max_length=240, pattern=r"^[!-~]+$")]
"""With the prefix of all our names no longer than a broker takes; and no NUL."""
Seconds = Annotated[float, Field(ge=0, le=86400)]


class FrameError(ValueError):
    """These bytes are no frame; says what is wrong with them."""


class QueueRef(Frozen):
    kind: Literal["queue"] = "queue"
    name: EntityName
    max_messages: Annotated[int, Field(ge=1)]
    expires_s: float | None


class HomeRef(Frozen):
    kind: Literal["home"] = "home"
    name: EntityName
    fallback: QueueRef
    grace_s: Annotated[float, Field(gt=0)]
    max_messages: Annotated[int, Field(ge=1)]
    expires_s: Annotated[float, Field(gt=0)]


class StreamRef(Frozen):
    kind: Literal["stream"] = "stream"
    name: EntityName
    max_age_s: float
    max_size_bytes: int


class TopicRef(Frozen):
    kind: Literal["topic"] = "topic"
    name: EntityName


AddressRef = Annotated[QueueRef | HomeRef | StreamRef | TopicRef, Field(discriminator="kind")]
Place = Annotated[QueueRef | HomeRef, Field(discriminator="kind")]
"""What a message is taken from, and goes back to."""
Source = Annotated[QueueRef | HomeRef | TopicRef, Field(discriminator="kind")]


class Hello(Frozen):
    kind: Literal["hello"] = "hello"
    protocol: int
    worker: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class Welcome(Frozen):
    """The first frame from the gateway: whose worker it is, and how much may be under way."""

    kind: Literal["welcome"] = "welcome"
    owner: str
    max_calls: Annotated[int, Field(ge=1)]
    """Calls that are not answered yet, at most."""
    max_bytes: Annotated[int, Field(ge=1)]
    """Bodies of calls that are not answered yet, all together; one is always allowed."""


class Call(Frozen):
    """What is answered by `done` or `failed`."""

    call: Id


class Declare(Call):
    kind: Literal["declare"] = "declare"
    address: AddressRef


class Publish(Call):
    kind: Literal["publish"] = "publish"
    address: AddressRef
    message_id: EntityName
    timeout_s: Seconds


class GiveUp(Call):
    """Put the body into `dead`."""

    kind: Literal["give_up"] = "give_up"
    origin: Place
    message_id: EntityName
    reason: Text


class Consume(Call):
    """Deliver from a queue or home, or what is told in a topic, under a number of the caller's."""

    kind: Literal["consume"] = "consume"
    consumer: Id
    source: Source
    prefetch: Annotated[int, Field(ge=1, le=MAX_PREFETCH)]


class Stop(Call):
    """Deliver no more; what was delivered can still be settled."""

    kind: Literal["stop"] = "stop"
    consumer: Id


class Leave(Call):
    """Hand back all that is not settled."""

    kind: Literal["leave"] = "leave"
    consumer: Id


class Settle(Frozen):
    kind: Literal["settle"] = "settle"
    consumer: Id
    delivery: Id
    how: Literal["ack", "nack", "dead_letter"]
    delay_s: Seconds = 0.0
    reason: Text = ""


class Done(Frozen):
    kind: Literal["done"] = "done"
    call: Id


FailureCode = Literal["unroutable", "unavailable", "not_allowed", "failed"]


class Failed(Frozen):
    kind: Literal["failed"] = "failed"
    call: Id
    code: FailureCode
    message: str


class Delivered(Frozen):
    kind: Literal["delivered"] = "delivered"
    consumer: Id
    delivery: Id
    message_id: str
    n_deliveries: int


class Ended(Frozen):
    """The queue was deleted; or, with an error, it can't be consumed from any more."""

    kind: Literal["ended"] = "ended"
    consumer: Id
    error: str | None = None


AnyCall = Declare | Publish | GiveUp | Consume | Stop | Leave
FromWorker = Hello | AnyCall | Settle
FromGateway = Welcome | Done | Failed | Delivered | Ended
FrameT = TypeVar("FrameT", bound=FromWorker | FromGateway)

FROM_WORKER: TypeAdapter[FromWorker] = TypeAdapter(
    Annotated[FromWorker, Field(discriminator="kind")]
)
FROM_GATEWAY: TypeAdapter[FromGateway] = TypeAdapter(
    Annotated[FromGateway, Field(discriminator="kind")]
)


def pack(frame: FromWorker | FromGateway, body: bytes = b"") -> bytes:
    header = frame.model_dump_json().encode()
    return b"".join((_LENGTH.pack(len(header)), header, body))


def unpack(data: bytes, kinds: TypeAdapter[FrameT]) -> tuple[FrameT, bytes]:
    """A frame and its body. Raises `FrameError`, whatever the bytes."""
    if len(data) < _LENGTH.size:
        raise FrameError(f"a frame has at least {_LENGTH.size} bytes")
    (n_header,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + n_header
    if end > len(data):
        raise FrameError(f"the header should end at byte {end} and the frame at {len(data)}")
    try:
        frame = kinds.validate_json(data[_LENGTH.size : end], strict=True)
    except ValidationError as error:
        raise FrameError("; ".join(explain(error))) from error
    body = data[end:]
    if body and not isinstance(frame, (Publish, GiveUp, Delivered)):
        raise FrameError(f"a {frame.kind} frame has no body")
    return frame, body


def ref_of(address: Address) -> QueueRef | HomeRef | StreamRef | TopicRef:
    match address:
        case WorkQueue():
            return queue_ref(address)
        case Home(name, fallback, grace_s, max_messages, expires_s):
            return HomeRef(
                name=name,
                fallback=queue_ref(fallback),
                grace_s=grace_s,
                max_messages=max_messages,
                expires_s=expires_s,
            )
        case Stream(name, max_age_s, max_size_bytes):
            return StreamRef(name=name, max_age_s=max_age_s, max_size_bytes=max_size_bytes)
        case Topic(name):
            return TopicRef(name=name)


def queue_ref(queue: WorkQueue) -> QueueRef:
    return QueueRef(name=queue.name, max_messages=queue.max_messages, expires_s=queue.expires_s)


def place_ref(place: WorkQueue | Home) -> QueueRef | HomeRef:
    ref = ref_of(place)
    assert isinstance(ref, (QueueRef, HomeRef))
    return ref


def place_of(ref: QueueRef | HomeRef) -> WorkQueue | Home:
    if isinstance(ref, QueueRef):
        return WorkQueue(ref.name, ref.max_messages, ref.expires_s)
    fallback = ref.fallback
    return Home(
        ref.name,
        WorkQueue(fallback.name, fallback.max_messages, fallback.expires_s),
        ref.grace_s,
        ref.max_messages,
        ref.expires_s,
    )


def address_of(ref: QueueRef | HomeRef | StreamRef | TopicRef) -> Address:
    match ref:
        case QueueRef() | HomeRef():
            return place_of(ref)
        case StreamRef():
            return Stream(ref.name, ref.max_age_s, ref.max_size_bytes)
        case TopicRef():
            return Topic(ref.name)
