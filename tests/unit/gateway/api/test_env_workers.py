"""Remote env workers at a gateway's door: who comes in, who is sent away, and who sees what."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from tests.support.access import ADMIN
from tests.support.brokers import PATIENCE_S, assert_quiet, take
from tests.support.gateway import Gateway, open_gateway
from tests.support.interacting import spec, start, start_all
from tests.support.remote_workers import broker, hub, key_of, remote

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.errors import BrokerUnavailable, NotAllowed
from warren_broker.memory import MemoryHub
from warren_broker.port import Broker
from warren_broker.remote import open_remote
from warren_broker.remote.frames import (
    FROM_GATEWAY,
    MALFORMED,
    MAX_FRAME_BYTES,
    OUT_OF_ORDER,
    PATH,
    PROTOCOL,
    REPLACED,
    TOO_MUCH,
    WORKER_HEADER,
    WRONG_PROTOCOL,
    Consume,
    Hello,
    TopicRef,
    Welcome,
    pack,
    unpack,
)
from warren_broker.topology import RUNS, generate, home, interact, trajectories
from warren_gateway.access.key import Key
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.remote.session import MAX_CONSUMERS
from warren_gateway.remote.sessions import SessionLimits
from warren_gateway.store.store import Store
from warren_schemas.http import Problem

__all__ = ["broker", "hub"]


@asynccontextmanager
async def dialled(gateway: Gateway) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
    """A bare socket with ann's key, for saying what no worker of ours would say."""
    async with gateway.ann.ws_connect(PATH) as socket:
        yield socket


async def welcomed(
    socket: aiohttp.ClientWebSocketResponse, worker: str = "env_1"
) -> aiohttp.ClientWebSocketResponse:
    await socket.send_bytes(pack(Hello(protocol=PROTOCOL, worker=worker)))
    frame, _ = unpack(await socket.receive_bytes(timeout=PATIENCE_S), FROM_GATEWAY)
    assert isinstance(frame, Welcome)
    assert frame.owner == "ann"
    return socket


async def sent_away(socket: aiohttp.ClientWebSocketResponse) -> tuple[int | None, str]:
    """The code and the words of the gateway's close frame."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            message = await socket.receive()
            if message.type is not aiohttp.WSMsgType.BINARY:
                return socket.close_code, message.extra or ""


async def is_alive(gateway: Gateway) -> bool:
    async with dialled(gateway) as socket:
        await welcomed(socket, worker="env_somebody_else")
    async with gateway.ann.get("/healthz") as response:
        return response.status == 200


async def test_it_knows_whose_key_it_is(gateway: Gateway) -> None:
    async with remote(gateway, "bob") as broker:
        assert broker.owner == "bob"
        assert broker.description == f"the gateway at {gateway.url}"


async def test_a_wrong_key_is_refused_in_a_sentence(gateway: Gateway) -> None:
    with pytest.raises(NotAllowed, match="does not accept this API key"):
        async with open_remote(gateway.url, api_key=str(Key.new()), worker="env_1"):
            pass


async def test_nobody_there_is_said_in_a_sentence() -> None:
    with pytest.raises(BrokerUnavailable, match=r"no answer from the gateway at http://127"):
        async with open_remote("http://127.0.0.1:1", api_key="k", worker="env_1", open_s=0.3):
            pass


async def test_what_is_no_websocket_is_told_what_this_is(gateway: Gateway) -> None:
    async with gateway.ann.get(PATH) as response:
        assert response.status == 426
        assert "warren env-worker" in (Problem.model_validate(await response.json()).hint or "")


@pytest.mark.parametrize(
    ("data", "code", "words"),
    [
        (b"", MALFORMED, "at least 4 bytes"),
        (b"\xff\xff\xff\xff", MALFORMED, "the header should end at byte"),
        (b"\x02\x00\x00\x00{}", MALFORMED, "kind"),
        (b"\x04\x00\x00\x00\xff\xfe\xfd\xfc", MALFORMED, ""),
        (pack(Hello(protocol=PROTOCOL, worker="env_1"), b"body"), MALFORMED, "has no body"),
        (pack(Hello(protocol=99, worker="env_1")), WRONG_PROTOCOL, "speaks protocol 1"),
        (
            pack(Consume(call=1, consumer=1, source=TopicRef(name="runs"), prefetch=1)),
            OUT_OF_ORDER,
            "begins with hello",
        ),
    ],
)
async def test_who_does_not_say_hello_is_sent_away(
    gateway: Gateway, data: bytes, code: int, words: str
) -> None:
    async with dialled(gateway) as socket:
        await socket.send_bytes(data)
        said = await sent_away(socket)
    assert said[0] == code
    assert words in said[1]
    assert await is_alive(gateway)


async def test_a_text_frame_is_sent_away(gateway: Gateway) -> None:
    async with dialled(gateway) as socket:
        await (await welcomed(socket)).send_str("hello?")
        assert (await sent_away(socket))[0] == MALFORMED
    assert await is_alive(gateway)


async def test_an_oversized_frame_is_sent_away(gateway: Gateway) -> None:
    async with dialled(gateway) as socket:
        await welcomed(socket)
        with contextlib.suppress(ConnectionError):  # it may hang up before we have said it all
            await socket.send_bytes(bytes(MAX_FRAME_BYTES + 1))
        code, _ = await sent_away(socket)
    assert code in (aiohttp.WSCloseCode.MESSAGE_TOO_BIG, aiohttp.WSCloseCode.ABNORMAL_CLOSURE)
    assert await is_alive(gateway)


async def test_silence_instead_of_a_hello_is_sent_away(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    limits = SessionLimits(hello_s=0.1)
    async with (
        open_gateway(store, broker, tmp_path, sessions=limits) as gateway,
        dialled(gateway) as socket,
    ):
        assert (await sent_away(socket))[0] == OUT_OF_ORDER


async def test_nobody_opens_consumers_without_end(gateway: Gateway) -> None:
    async with dialled(gateway) as socket:
        await welcomed(socket)
        for i in range(MAX_CONSUMERS + 1):
            source = TopicRef(name=RUNS.name)
            await socket.send_bytes(pack(Consume(call=i, consumer=i, source=source, prefetch=1)))
        assert (await sent_away(socket))[0] == TOO_MUCH
    assert await is_alive(gateway)


@pytest.mark.parametrize("budgets", [BudgetOptions(env_workers_per_owner=2)])
async def test_one_too_many_gets_no_socket_however_many_come_at_once(gateway: Gateway) -> None:
    """A place is held before the socket is accepted, and free again when it is gone."""

    async def knock() -> int:
        try:
            socket = await opened.enter_async_context(gateway.ann.ws_connect(PATH))
        except aiohttp.WSServerHandshakeError as refused:
            assert refused.headers is not None and refused.headers["Retry-After"]
            return refused.status
        sockets.append(socket)
        return 101

    sockets: list[aiohttp.ClientWebSocketResponse] = []
    async with AsyncExitStack() as opened:
        statuses = await asyncio.gather(*(knock() for _ in range(8)))
        assert sorted(statuses) == [101] * 2 + [429] * 6
        async with gateway.bob.ws_connect(PATH):
            pass
        for socket in sockets:
            await socket.close()
        async with dialled(gateway) as socket:
            await welcomed(socket)


@pytest.mark.parametrize("budgets", [BudgetOptions(env_workers_per_owner=1)])
async def test_who_comes_back_while_his_budget_is_used_up_replaces_his_old_socket(
    gateway: Gateway,
) -> None:
    """As when the network was lost: the gateway has not noticed yet that the old one is dead."""
    headers = {WORKER_HEADER: "env_1"}
    async with gateway.ann.ws_connect(PATH, headers=headers) as old:
        await welcomed(old)
        async with gateway.ann.ws_connect(PATH, headers=headers) as new:
            with pytest.raises(aiohttp.WSServerHandshakeError, match="429"):
                await gateway.ann.ws_connect(PATH, headers={WORKER_HEADER: "env_2"})
            welcoming = asyncio.create_task(welcomed(new))
            assert (await sent_away(old))[0] == REPLACED
            await asyncio.wait_for(welcoming, PATIENCE_S)


async def test_the_worker_that_says_hello_is_the_one_that_connected(gateway: Gateway) -> None:
    async with gateway.ann.ws_connect(PATH, headers={WORKER_HEADER: "env_2"}) as socket:
        await socket.send_bytes(pack(Hello(protocol=PROTOCOL, worker="env_1")))
        assert (await sent_away(socket))[0] == OUT_OF_ORDER


async def test_who_connects_anew_turns_his_old_conversation_out(gateway: Gateway) -> None:
    async with dialled(gateway) as old, dialled(gateway) as new:
        await welcomed(old)
        welcoming = asyncio.create_task(welcomed(new))
        assert (await sent_away(old))[0] == REPLACED
        await asyncio.wait_for(welcoming, PATIENCE_S)


async def test_a_revoked_key_ends_the_conversation_for_good(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    async with open_gateway(store, broker, tmp_path) as gateway:
        watching = asyncio.create_task(gateway.services.callers.run())
        key = await key_of(gateway, "ann")
        async with open_remote(gateway.url, api_key=str(key), worker="env_1") as worker:
            async with worker.consume(interact("letters", "ann"), prefetch=1) as consumer:
                await gateway.services.keys.revoke(ADMIN, key.id)
                with pytest.raises(NotAllowed):
                    await take(consumer)
            with pytest.raises(NotAllowed):
                await worker.declare(RUNS)
        watching.cancel()


async def test_an_address_of_others_is_refused_and_the_conversation_goes_on(
    gateway: Gateway,
) -> None:
    async with remote(gateway, "bob") as bob:
        for queue in (interact("letters"), interact("letters", "ann"), generate("tiny")):
            with pytest.raises(NotAllowed, match="not yours to take from"):
                async with bob.consume(queue, prefetch=1):
                    pass
        with pytest.raises(NotAllowed):
            await bob.publish(generate("tiny"), b"x", message_id="1", timeout_s=PATIENCE_S)
        async with bob.consume(interact("letters", "bob"), prefetch=1):
            pass


async def test_a_worker_that_hangs_up_hands_its_episodes_back(
    gateway: Gateway, hub: MemoryHub
) -> None:
    queue, direct = interact("letters", "ann"), hub.client("test")
    await start_all(direct, [start(of=spec(owner="ann"))])
    async with remote(gateway) as first, first.consume(queue, prefetch=1) as consumer:
        assert (await take(consumer)).n_deliveries == 1
        await first.close()
    async with (
        remote(gateway, worker="env_2") as second,
        second.consume(queue, prefetch=1) as consumer,
    ):
        assert (await take(consumer)).n_deliveries == 2


async def test_homes_of_a_worker_that_is_gone_fall_back_to_its_owner(
    gateway: Gateway, hub: MemoryHub
) -> None:
    direct = hub.client("test")
    where = home("env_1", "letters", "ann")
    async with remote(gateway) as ann, ann.consume(where, prefetch=5) as consumer:
        await BatchPublisher(direct).send(where, start(of=spec(owner="ann")))
        await take(consumer)
    async with (
        remote(gateway, worker="env_2") as heir,
        heir.consume(interact("letters", "ann"), prefetch=5) as consumer,
    ):
        assert (await take(consumer)).n_deliveries == 2
        await assert_quiet(consumer)


async def test_a_stream_of_a_run_takes_the_ends_of_its_episodes_alone(
    gateway: Gateway, hub: MemoryHub
) -> None:
    direct = hub.client("test")
    await direct.declare(trajectories("run_9"))
    async with remote(gateway) as ann:
        with pytest.raises(NotAllowed):
            await ann.publish(trajectories("run_9"), b"x", message_id="1", timeout_s=PATIENCE_S)
