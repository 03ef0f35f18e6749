"""A connection that is silent between questions."""

import asyncio

import aiohttp
import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from warren_env_worker.environments.openenv.socket import Socket, SocketLost

LEAVE = {"n": 0}


class Pinging:
    """Pings once it has answered, and hangs up when it is asked for that."""

    def __init__(self) -> None:
        self.is_answered = asyncio.Event()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.PONG:
                self.is_answered.set()
            elif message.json() == LEAVE:
                await socket.close()
            else:
                await socket.send_str(message.data)
                await socket.ping()
        return socket


async def test_pings_are_answered_while_the_policy_thinks_and_the_next_answer_is_heard() -> None:
    pinging, app = Pinging(), web.Application()
    app.router.add_get("/ws", pinging.serve)
    async with TestServer(app) as server, aiohttp.ClientSession() as http:
        socket = Socket(await http.ws_connect(server.make_url("/ws")))
        for question in ({"n": 1}, {"n": 2}):
            pinging.is_answered.clear()
            assert await socket.ask(question) == f'{{"n":{question["n"]}}}'
            await pinging.is_answered.wait()
        with pytest.raises(SocketLost):
            await socket.ask(LEAVE)
        await socket.close()
