"""Closing channels of a server that does not answer: waited for once, and never cut short."""

import asyncio

import pytest
from tests.support.brokers import PATIENCE_S

from warren_broker.rabbitmq.connection.closing import Closings


def unanswered() -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


async def test_a_server_that_is_mute_is_waited_for_once() -> None:
    ours, first, second = Closings(0.01), unanswered(), unanswered()
    await ours.close(first)
    ours.close_s = 10 * PATIENCE_S

    async with asyncio.timeout(PATIENCE_S):
        await ours.close(second)

    assert not first.done()
    assert not second.done()


async def test_one_that_answers_again_is_waited_for() -> None:
    ours, late, answer = Closings(0.01), unanswered(), unanswered()
    await ours.close(late)
    ours.close_s = 10 * PATIENCE_S
    late.set_result(None)
    await ours.begin(late)

    asyncio.get_running_loop().call_later(0.05, answer.set_result, None)
    async with asyncio.timeout(PATIENCE_S):
        await ours.close(answer)
    assert answer.done()


async def test_a_close_that_fails_is_one(caplog: pytest.LogCaptureFixture) -> None:
    lost = unanswered()
    lost.set_exception(ConnectionError("lost"))
    await Closings(0.01).close(lost)
    assert not caplog.records
