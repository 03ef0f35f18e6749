"""Taking leave of a server that does not answer: waited for once, and never cut short."""

import asyncio

import pytest
from tests.support.brokers import PATIENCE_S

from warren_broker.rabbitmq import goodbyes
from warren_broker.rabbitmq.goodbyes import Goodbyes


def unanswered() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


async def test_a_server_that_is_mute_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, first, second = Goodbyes(), unanswered(), unanswered()
    monkeypatch.setattr(goodbyes, "CLOSE_S", 0.01)
    await ours.say(first)
    monkeypatch.setattr(goodbyes, "CLOSE_S", 10 * PATIENCE_S)

    async with asyncio.timeout(PATIENCE_S):
        await ours.say(second)

    assert not first.done()
    assert not second.done()


async def test_one_that_answers_again_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, late, answer = Goodbyes(), unanswered(), unanswered()
    monkeypatch.setattr(goodbyes, "CLOSE_S", 0.01)
    await ours.say(late)
    monkeypatch.setattr(goodbyes, "CLOSE_S", 10 * PATIENCE_S)
    late.set_result(None)
    await ours.begin(late)

    asyncio.get_running_loop().call_later(0.05, answer.set_result, None)
    async with asyncio.timeout(PATIENCE_S):
        await ours.say(answer)
    assert answer.done()


async def test_a_goodbye_that_fails_is_one(caplog: pytest.LogCaptureFixture) -> None:
    lost = unanswered()
    lost.set_exception(ConnectionError("lost"))
    await Goodbyes().say(lost)
    assert not caplog.records
