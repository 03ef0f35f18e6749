"""Those who ask and don't stay, and answers that take other ways."""

import asyncio
from pathlib import Path

import pytest
from tests.support.brokers import eventually
from tests.support.episodes import first_turn, policy
from tests.support.gateway import Follower, Gateway, heartbeat, open_gateway
from tests.support.openai_asking import chat, said
from tests.support.patience import PATIENCE_S
from tests.support.rote_sampler import asking, ignored, step

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.inbox import listen, receive
from warren_broker.port import Broker
from warren_broker.topology import CANCELLATIONS, generate, home, interact
from warren_gateway.access.caller import Viewer
from warren_gateway.inference.sampler_requests import (
    ELSEWHERE_S,
    ENVIRONMENT,
    SamplerRequests,
    is_young,
)
from warren_gateway.runs.service import Runs
from warren_gateway.store.outbox import Relay
from warren_gateway.store.store import Store
from warren_schemas.control import EpisodeCancelled, WorkerRole
from warren_schemas.episode import Generate
from warren_schemas.events import RunState
from warren_schemas.http import RunView
from warren_schemas.ids import made_ms

__all__ = ["asking", "ignored"]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_caller_that_leaves_lets_the_samplers_stop(
    asking: Gateway, ignored: asyncio.Queue[Generate], is_stream: bool
) -> None:
    async with listen(asking.broker, CANCELLATIONS, EpisodeCancelled) as inbox:
        waiting = asyncio.create_task(chat(asking.ann, n=2, stream=is_stream, **said("never")))
        asked = {(await ignored.get()).envelope.episode for _ in range(2)}
        waiting.cancel()
        await asyncio.wait([waiting])
        cancelled: set[object] = set()
        async with asyncio.timeout(PATIENCE_S):
            while cancelled != asked:
                for claim in await anext(inbox):
                    cancelled.add(claim.item.envelope.episode)
                    claim.done()
    assert asking.services.sampler_requests.n_waiting == 0
    assert (await chat(asking.ann))[0] == 200


async def test_what_was_begun_by_a_caller_who_left_is_finished(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    """Only where the route says so does a request end with its caller."""
    begun, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class SlowRuns(Runs):
        async def newest(
            self,
            viewer: Viewer,
            state: RunState | None,
            limit: int,
            *,
            shared: bool = False,
            sweep: str | None = None,
        ) -> list[RunView]:
            begun.set()
            await go_on.wait()
            done.set()
            return await super().newest(viewer, state, limit, shared=shared, sweep=sweep)

    runs = SlowRuns(
        store, broker, Relay(store, broker), runs_dir=tmp_path, queue=Follower(), followers=()
    )
    async with open_gateway(store, broker, tmp_path, runs=runs) as gateway:
        leaving = asyncio.create_task(gateway.ann.get("/v1/runs"))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        leaving.cancel()
        await asyncio.wait([leaving])
        async with gateway.bob.get("/v1/workers") as response:  # the loss was noticed by now
            assert response.status == 200
        go_on.set()
        await asyncio.wait_for(done.wait(), PATIENCE_S)


async def test_an_answer_that_took_the_shared_queue_is_taken_and_its_twin_dropped(
    asking: Gateway,
) -> None:
    batch_publisher = BatchPublisher(asking.broker)
    async with receive(asking.broker, generate("other/base"), Generate, prefetch=1) as inbox:
        registry = asking.services.registry
        registry.hear(heartbeat("sampler_2", WorkerRole.SAMPLER, "other/base"))
        waiting = asyncio.create_task(chat(asking.ann, model="other/base"))
        (claim,) = await anext(inbox)
        await batch_publisher.send(interact(ENVIRONMENT), step(claim.item, "by the shared queue"))
        await batch_publisher.send(interact(ENVIRONMENT), step(claim.item, "a duplicate"))
        claim.done()
    status, body = await waiting
    assert status == 200
    assert body["choices"][0]["message"]["content"] == "by the shared queue"
    assert (await chat(asking.ann))[0] == 200


async def test_an_answer_in_the_shared_queue_waits_for_the_gateway_that_asked(
    asking: Gateway,
) -> None:
    base, batch_publisher, other = (
        "other/base",
        BatchPublisher(asking.broker),
        SamplerRequests(asking.broker),
    )
    asking.services.registry.hear(heartbeat("sampler_2", WorkerRole.SAMPLER, base))
    running = asyncio.create_task(other.run())
    async with receive(asking.broker, generate(base), Generate, prefetch=1) as inbox:
        for _ in range(4):  # whoever takes from the queue, it is sometimes the other one
            waiting = asyncio.create_task(chat(asking.ann, model=base))
            (claim,) = await anext(inbox)
            await batch_publisher.send(
                interact(ENVIRONMENT), step(claim.item, "by the shared queue")
            )
            claim.done()
            assert (await asyncio.wait_for(waiting, PATIENCE_S))[0] == 200
    running.cancel()
    await asyncio.wait([running])


def test_an_answer_does_not_go_round_for_ever() -> None:
    answer = step(first_turn(policy()), "hello")
    made_s = made_ms(answer.envelope.id) / 1000
    assert is_young(answer, made_s + ELSEWHERE_S - 1)
    assert not is_young(answer, made_s + ELSEWHERE_S + 1)
    assert not is_young(answer, made_s - ELSEWHERE_S - 1), "a clock that is far off"


async def test_a_gateway_that_stops_answers_those_who_wait(
    asking: Gateway, ignored: asyncio.Queue[Generate]
) -> None:
    waiting = asyncio.create_task(chat(asking.ann, **said("never")))
    await ignored.get()
    asking.services.sampler_requests.stop()
    for status, body in (await waiting, await chat(asking.ann)):
        assert (status, body["error"]["code"]) == (503, "stopping")


async def test_a_question_waits_in_a_queue_that_had_to_be_made(
    asking: Gateway,
) -> None:
    base = "new/base"

    async def is_made() -> bool:
        return await asking.broker.depth(generate(base)) is not None

    asking.services.registry.hear(heartbeat("sampler_2", WorkerRole.SAMPLER, base))
    waiting = asyncio.create_task(chat(asking.ann, model=base))
    async with asyncio.timeout(PATIENCE_S):
        await eventually(is_made)
        async with receive(asking.broker, generate(base), Generate, prefetch=1) as inbox:
            (claim,) = await anext(inbox)
            address = home(claim.item.home, ENVIRONMENT)
            await BatchPublisher(asking.broker).send(address, step(claim.item, "late"))
            claim.done()
    assert (await waiting)[0] == 200
