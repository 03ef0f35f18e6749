"""What we declare is what every RabbitMQ from 3.10 to 4.x accepts, and loses nothing."""

import pytest

from warren_broker.rabbitmq.entities.entities import (
    RETRY_DELAYS_S,
    Entities,
    Entity,
    QueueEntity,
    retry_delay_s,
)
from warren_broker.rabbitmq.entities.home_leases import LEASE_GRACES
from warren_broker.topology import DEAD, Home, Stream, Topic, WorkQueue

ENTITIES = Entities("w.")
WORK = WorkQueue("work")
HOME = Home("home.a", WORK, grace_s=2.0)
ALL: list[Entity] = [
    *ENTITIES.base(),
    *ENTITIES.of(WORK),
    *ENTITIES.of(HOME),
    *ENTITIES.of(Stream("log")),
    *ENTITIES.of(Topic("news")),
    ENTITIES.listener(Topic("news"), "one"),
    *(entity for delay_s in RETRY_DELAYS_S for entity in ENTITIES.retry(delay_s)),
]
QUEUES = [entity for entity in ALL if isinstance(entity, QueueEntity)]
QUORUM = [queue for queue in QUEUES if queue.arguments["x-queue-type"] == "quorum"]

REFUSED_BY_4 = {"x-queue-mode", "x-max-priority", "x-queue-version", "x-consumer-timeout"}
STREAM_ARGUMENTS = {
    "x-queue-type", "x-max-age", "x-max-length-bytes", "x-stream-max-segment-size-bytes",
}  # fmt: skip


@pytest.mark.parametrize("entity", ALL, ids=lambda entity: entity.name)
def test_every_name_has_the_prefix(entity: Entity) -> None:
    assert entity.name.startswith("w.")


@pytest.mark.parametrize("queue", QUEUES, ids=lambda queue: queue.name)
def test_queues_keep_to_the_portable_subset(queue: QueueEntity) -> None:
    kind = queue.arguments["x-queue-type"]
    assert not REFUSED_BY_4 & set(queue.arguments)
    assert kind in ("quorum", "stream") or queue.is_exclusive  # a server default may differ
    if kind == "stream":
        assert set(queue.arguments) <= STREAM_ARGUMENTS


@pytest.mark.parametrize("queue", QUORUM, ids=lambda queue: queue.name)
def test_quorum_queues_have_explicit_bounds(queue: QueueEntity) -> None:
    """RabbitMQ 4 would set a delivery limit of 20 by itself, and drop without a dead-letter exchange."""
    assert {"x-delivery-limit", "x-max-length", "x-overflow"} <= set(queue.arguments)
    assert not queue.is_exclusive


@pytest.mark.parametrize("queue", QUORUM, ids=lambda queue: queue.name)
def test_what_the_server_dead_letters_it_dead_letters_at_least_once(queue: QueueEntity) -> None:
    if "x-dead-letter-exchange" in queue.arguments:
        assert queue.arguments["x-dead-letter-strategy"] == "at-least-once"
        assert queue.arguments["x-overflow"] == "reject-publish"
    else:
        assert queue.name in ("w.dead", "w.queue-repair", "w.work")


def test_what_expires_or_is_given_up_has_somewhere_to_go() -> None:
    exchanges = {entity.name for entity in ALL if not isinstance(entity, QueueEntity)}
    for queue in QUORUM:
        assert queue.arguments.get("x-dead-letter-exchange", "w.lost") in exchanges
        assert all(exchange in exchanges for exchange, _ in queue.bindings)


def test_what_may_be_deleted_is_not_dead_lettered_by_the_server() -> None:
    """On RabbitMQ 3.10 that can end the dead-lettering of the whole node."""
    (work,) = ENTITIES.of(WORK)
    assert not [name for name in work.arguments if name.startswith("x-dead-letter")]


def test_a_home_outlives_its_messages() -> None:
    _, home = ENTITIES.of(HOME)
    ttl, expires = home.arguments["x-message-ttl"], home.arguments["x-expires"]
    assert isinstance(ttl, int)
    assert isinstance(expires, int)
    assert ttl == 2000
    assert expires >= 180_000 + LEASE_GRACES * ttl + ttl, "what it could not move as it booted"


def test_dead_is_the_same_however_it_is_declared() -> None:
    assert list(ENTITIES.of(DEAD)) == ENTITIES.base()[-1:]


@pytest.mark.parametrize(
    ("asked_s", "step_s"), [(0.01, 0.25), (0.25, 0.25), (0.3, 1.0), (60.0, 60.0), (1e6, 1800.0)]
)
def test_delays_are_rounded_up_to_a_step(asked_s: float, step_s: float) -> None:
    assert retry_delay_s(asked_s) == step_s
