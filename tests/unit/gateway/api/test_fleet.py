"""Workers, queues and health over HTTP."""

import asyncio
from pathlib import Path

from sqlmodel import Session, select
from tests.support.gateway import Gateway, heartbeat, open_gateway
from tests.support.lost_store import lost_store

from warren_broker.port import Broker
from warren_broker.topology import DEAD, compare, generate, interact, results, train
from warren_gateway.probe import Probe
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Model
from warren_schemas.control import WorkerRole
from warren_schemas.http import Health, QueueList, WorkerList


async def test_lists_live_workers(gateway: Gateway) -> None:
    held = [{"model": "model_1", "epoch": 2}]
    gateway.services.registry.hear(
        heartbeat("t1", WorkerRole.TRAINER, "tiny", in_flight=1, n_done=9, models=held, pid=42)
    )
    async with gateway.bob.get("/v1/workers") as response:
        (worker,) = WorkerList.model_validate_json(await response.read()).workers
    assert (worker.id, worker.role, worker.offers) == ("t1", "trainer", ("tiny",))
    assert (worker.in_flight, worker.n_done, worker.models) == (1, 9, ("model_1",))
    assert worker.last_seen_s > 1_700_000_000


async def test_shows_the_queues_that_matter(gateway: Gateway, broker: Broker) -> None:
    registry = gateway.services.registry
    registry.hear(heartbeat("s1", WorkerRole.SAMPLER, "tiny", "large"))
    registry.hear(heartbeat("e1", WorkerRole.ENVIRONMENT, "guess"))
    await gateway.submit()
    model = await gateway.store.transact(_lease)
    await broker.declare(
        generate("tiny"), interact("guess"), compare("guess"), train(model, 3), results(model), DEAD
    )
    for number in range(3):
        await broker.publish(generate("tiny"), b"x", message_id=f"m{number}")
    assert await _depths(gateway) == {
        "generate.tiny": 3,
        "interact.guess": 0,
        "compare.guess": 0,
        "dead": 0,
        f"train.{model}.3": 0,
        f"results.{model}": 0,
    }


async def test_queues_of_another_owners_models_are_not_shown(
    gateway: Gateway, broker: Broker
) -> None:
    await gateway.submit()
    model = await gateway.store.transact(_lease)
    await broker.declare(train(model, 3), results(model), DEAD)
    async with gateway.bob.get("/v1/queues") as response:
        queues = QueueList.model_validate_json(await response.read()).queues
    assert [queue.name for queue in queues] == ["dead"]


async def test_a_gateway_that_can_work_is_healthy(gateway: Gateway) -> None:
    status, health = await _health(gateway)
    assert (status, health.status, health.broker, health.store) == (200, "ok", "ok", "ok")
    assert health.version


async def test_without_the_broker_the_gateway_is_degraded(gateway: Gateway, broker: Broker) -> None:
    await broker.close()
    status, health = await _health(gateway)
    assert (status, health.status, health.broker) == (200, "degraded", "unavailable")


async def test_without_the_store_the_gateway_is_unavailable(gateway: Gateway) -> None:
    with lost_store():
        status, health = await _health(gateway)
    assert (status, health.status, health.store) == (503, "unavailable", "unavailable")


async def test_a_store_that_hangs_does_not_hang_the_health(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    hanging = asyncio.Event()

    async def hang() -> bool:
        return await hanging.wait()

    probe = Probe(hang, answer_s=0.01)
    async with open_gateway(store, broker, tmp_path, store_probe=probe) as gateway:
        for _ in range(2):
            status, health = await _health(gateway)
            assert (status, health.store) == (503, "unavailable")
        hanging.set()
        assert (await _health(gateway))[0] == 200


def _lease(session: Session) -> str:
    """Grant the only model's lease for the third time."""
    model = session.exec(select(Model)).one()
    model.epoch = 3
    return model.id


async def _depths(gateway: Gateway) -> dict[str, int]:
    async with gateway.ann.get("/v1/queues") as response:
        queues = QueueList.model_validate_json(await response.read()).queues
    return {queue.name: queue.n_ready for queue in queues}


async def _health(gateway: Gateway) -> tuple[int, Health]:
    async with gateway.nobody.get("/healthz") as response:
        return response.status, Health.model_validate_json(await response.read())
