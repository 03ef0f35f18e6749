"""Dead letters over HTTP: seen by whom they belong to, sent home, counted, forgotten."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.support.factories import make_envelope, make_step
from tests.support.gateway import Gateway

import warren
from warren.cli.commands.system import dead_letters
from warren.cli.options import Gateway as GatewayOption
from warren_broker.topology import WorkQueue
from warren_gateway.access.key import Key
from warren_gateway.access.rows import LOCAL_USER
from warren_schemas.codec.wire import encode
from warren_schemas.ids import new_message_id

QUEUE = WorkQueue("interact.guess")


@asynccontextmanager
async def client_of(
    gateway: Gateway, session: aiohttp.ClientSession
) -> AsyncGenerator[warren.Client]:
    key = session.headers["Authorization"].removeprefix("Bearer ")
    async with warren.connect(gateway.url, key, retry_s=2.0) as client:
        yield client


async def give_up(gateway: Gateway, body: bytes, reason: str = "no such turn") -> str:
    await gateway.broker.declare(QUEUE)
    name = new_message_id()
    await gateway.broker.dead_letter(body, origin=QUEUE, reason=reason, message_id=name)
    return name


async def test_an_owner_sees_the_letters_of_their_runs(gateway: Gateway) -> None:
    run = await gateway.submit()
    mine = await give_up(gateway, encode([make_step(envelope=make_envelope(run=run))]))
    await give_up(gateway, encode([make_step()]))
    await give_up(gateway, b"garbage")
    async with client_of(gateway, gateway.ann) as ann, client_of(gateway, gateway.bob) as bob:
        (letter,) = await ann.dead_letters()
        assert (letter.id, letter.origin, letter.reason) == (mine, QUEUE.name, "no such turn")
        assert (letter.kind, letter.n_items, letter.runs, letter.n_failures) == (
            "step",
            1,
            (run,),
            1,
        )
        assert letter.first_seen_s > 1e9
        assert (await ann.dead_letter(mine)).items[0]["envelope"]["run"] == run  # pyright: ignore[reportArgumentType, reportCallIssue, reportIndexIssue, reportOptionalSubscript]
        assert await bob.dead_letters() == ()
        for call in (bob.dead_letter, bob.republish_dead_letter, bob.drop_dead_letter):
            with pytest.raises(warren.NotFound):
                await call(mine)


async def test_the_gateways_own_key_sees_all(gateway: Gateway) -> None:
    key = Key.new()
    await gateway.services.keys.add(key, LOCAL_USER)
    garbage = await give_up(gateway, b"garbage", "unreadable")
    async with warren.connect(gateway.url, str(key)) as local:
        (letter,) = await local.dead_letters()
        assert (letter.id, letter.kind, letter.n_items) == (garbage, None, 0)
        assert (await local.dead_letter(garbage)).items == ()


async def test_a_letter_is_sent_home_and_forgotten(gateway: Gateway) -> None:
    run = await gateway.submit()
    body = encode([make_step(envelope=make_envelope(run=run))])
    name = await give_up(gateway, body)
    async with (
        client_of(gateway, gateway.ann) as ann,
        gateway.broker.consume(QUEUE, prefetch=1) as consumer,
    ):
        await ann.republish_dead_letter(name)
        delivery = await anext(consumer)
        assert delivery.body == body
        assert await ann.dead_letters() == ()
        await delivery.dead_letter("still no such turn")
        (letter,) = await ann.dead_letters()
        assert (letter.id, letter.n_failures, letter.reason) == (name, 2, "still no such turn")
        await ann.drop_dead_letter(name)
        assert await ann.dead_letters() == ()
        with pytest.raises(warren.NotFound):
            await ann.drop_dead_letter(name)


async def test_a_letter_whose_queue_is_gone_stays(gateway: Gateway) -> None:
    run = await gateway.submit()
    name = await give_up(gateway, encode([make_step(envelope=make_envelope(run=run))]))
    await gateway.broker.delete(QUEUE)
    async with client_of(gateway, gateway.ann) as ann:
        with pytest.raises(warren.GatewayError, match="which no longer exists") as refused:
            await ann.republish_dead_letter(name)
        assert refused.value.status == 409
        assert [letter.id for letter in await ann.dead_letters()] == [name]


async def test_the_commands_say_what_they_did(
    gateway: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    run = await gateway.submit()
    name = await give_up(gateway, encode([make_step(envelope=make_envelope(run=run))]))
    key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
    here = GatewayOption(gateway.url, key)
    await asyncio.to_thread(dead_letters.ls, gateway=here)
    assert f"{name}  {QUEUE.name}  1 step" in capsys.readouterr().out
    await asyncio.to_thread(dead_letters.show, name, gateway=here)
    assert f'"run": "{run}"' in capsys.readouterr().out
    await asyncio.to_thread(dead_letters.republish, name, gateway=here)
    assert capsys.readouterr().out == f"{name} went back to {QUEUE.name}\n"
    async with gateway.broker.consume(QUEUE, prefetch=1) as consumer:
        await (await anext(consumer)).dead_letter("again")
    await asyncio.to_thread(dead_letters.ls, gateway=here)
    assert "2 times" in capsys.readouterr().out
    await asyncio.to_thread(dead_letters.drop, name, gateway=here)
    await asyncio.to_thread(dead_letters.ls, gateway=here)
    assert "There are no dead letters." in capsys.readouterr().out
