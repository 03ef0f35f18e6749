"""Every test of this folder that asks for `place` runs over each implementation of the port.

`remote` is the part of the port that an env worker uses (`port.WorkBroker`: declaring, publishing,
consuming, listening, settling, giving up), carried over a WebSocket to a gateway's session. The rest,
which only who runs the system uses (streams, depths, looking at dead letters, deleting), goes to the
broker behind the session, so that the tests can look at what became of it. Behind the session is the
in-process broker; RabbitMQ is there for `THROUGH_A_ROOM_TO_RABBITMQ`, one case for each kind of thing
that passes through.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.support.brokers import PATIENCE_S, Opener, Place
from tests.support.private_rabbit import PrivateRabbit
from tests.support.remote import gateway_for_all, open_remote_part

from warren_broker.memory import MemoryHub, open_hub
from warren_broker.port import Broker
from warren_broker.rabbitmq import Timings, open_rabbitmq

THROUGH_A_ROOM_TO_RABBITMQ = {
    "test_a_dead_letter_says_where_from_and_why",
    "test_a_mebibyte_arrives_unchanged",
    "test_a_message_arrives_once_and_whole",
    "test_a_poison_message_goes_to_dead_after_the_limit",
    "test_deleting_a_queue_ends_its_consumers",
    "test_events_reach_everybody_who_listens",
    "test_nack_with_delay_brings_it_back_and_counted",
    "test_prefetch_bounds_what_is_unacknowledged",
    "test_publishing_to_an_unknown_queue_is_unroutable",
    "test_what_a_closed_client_held_goes_to_another",
    "test_what_an_abandoned_home_held_falls_back",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        kinds = ["in-process", pytest.param("rabbitmq", marks=pytest.mark.server), "remote"]
        if metafunc.function.__name__ in THROUGH_A_ROOM_TO_RABBITMQ:
            kinds.append(pytest.param("remote before rabbitmq", marks=pytest.mark.server))
        metafunc.parametrize("place", kinds, indirect=True)


@pytest.fixture
async def place(request: pytest.FixtureRequest) -> AsyncGenerator[Place]:
    async with AsyncExitStack() as stack:
        if request.param.endswith("rabbitmq"):
            open_client = _rabbitmq(request.getfixturevalue("private_rabbit"))
        else:
            open_client = _in_process(await stack.enter_async_context(open_hub()))
        if request.param.startswith("remote"):
            open_client = await _remote(open_client, stack)
        place = Place(request.param, open_client, stack)
        yield place
        await (await place.client("cleaner")).delete(*place.used)


@pytest.fixture
async def broker(place: Place) -> Broker:
    return await place.client()


def _in_process(hub: MemoryHub) -> Opener:
    @asynccontextmanager
    async def open_client(name: str) -> AsyncGenerator[Broker]:
        client = hub.client(name)
        yield client
        await client.close()

    return open_client


async def _remote(open_direct: Opener, stack: AsyncExitStack) -> Opener:
    gateway = await stack.enter_async_context(open_direct("gateway"))
    url = await stack.enter_async_context(gateway_for_all(gateway))

    @asynccontextmanager
    async def open_client(name: str) -> AsyncGenerator[Broker]:
        async with open_remote_part(url, gateway, name) as client:
            yield client

    return open_client


def _rabbitmq(node: PrivateRabbit) -> Opener:
    @asynccontextmanager
    async def open_client(name: str) -> AsyncGenerator[Broker]:
        async with open_rabbitmq(
            node.url,
            name=name,
            open_s=PATIENCE_S,
            timings=Timings(durable_after_s=0.0, confirm_s=PATIENCE_S),
        ) as client:
            yield client

    return open_client
