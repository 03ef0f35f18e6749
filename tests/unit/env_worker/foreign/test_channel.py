"""Connections that are handed to a fork server."""

import asyncio
import socket

import pytest

from warren_env_worker.foreign.channel import Channel

N_AT_ONCE = 400
"""More than the system lets be on their way."""


def taken(channel: Channel) -> socket.socket:
    _, (descriptor,), _, _ = socket.recv_fds(channel.theirs, 1, 1)
    return socket.socket(fileno=descriptor)


async def test_each_of_many_at_once_is_handed_over() -> None:
    channel = Channel()
    opening = [asyncio.create_task(channel.connection()) for _ in range(N_AT_ONCE)]
    for _ in range(3 * N_AT_ONCE):
        await asyncio.sleep(0)
    n_done = sum(task.done() for task in opening)
    assert 0 < n_done < N_AT_ONCE
    for number in range(N_AT_ONCE):
        with await asyncio.to_thread(taken, channel) as theirs:
            theirs.sendall(b"%d" % number)
    for number, ours in enumerate(await asyncio.gather(*opening)):
        assert ours.recv(8) == b"%d" % number
        ours.close()
    channel.close()


async def test_who_stops_waiting_leaves_the_channel_to_the_others() -> None:
    channel = Channel()
    opening = [asyncio.create_task(channel.connection()) for _ in range(N_AT_ONCE)]
    for _ in range(3 * N_AT_ONCE):
        await asyncio.sleep(0)
    waiting = [task for task in opening if not task.done()]
    waiting[0].cancel()
    for _ in range(N_AT_ONCE - 1):
        (await asyncio.to_thread(taken, channel)).close()
    await asyncio.wait(opening)
    assert waiting[0].cancelled()
    for task in opening:
        if not task.cancelled():
            task.result().close()
    channel.close()


async def test_who_waits_hears_that_the_channel_was_closed() -> None:
    channel = Channel()
    opening = [asyncio.create_task(channel.connection()) for _ in range(N_AT_ONCE)]
    for _ in range(3 * N_AT_ONCE):
        await asyncio.sleep(0)
    n_waiting = sum(not task.done() for task in opening)
    channel.close()
    outcomes = await asyncio.gather(*opening, return_exceptions=True)
    failures = [outcome for outcome in outcomes if isinstance(outcome, ConnectionError)]
    assert len(failures) == n_waiting > 0
    for outcome in outcomes:
        if isinstance(outcome, socket.socket):
            outcome.close()


async def test_one_that_nobody_takes_is_refused() -> None:
    channel = Channel()
    channel.theirs.close()
    with pytest.raises(ConnectionError):
        await channel.connection()
    channel.close()
