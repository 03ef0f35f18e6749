"""Steps over plain HTTP: one POST for each, keep-alive, a JSON body.

`typed` carries the same items as the brokers, validated by the same models on arrival, as a service
with schemas does; without it the bodies are bare dictionaries that nobody looks at (orjson).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import aiohttp
import orjson
from aiohttp import web
from aiohttp.typedefs import Handler
from benchmarks.transport.items import GENERATE, STEPS, answer_to, numbered
from benchmarks.transport.load import RoundTrip

from warren_schemas.episode import Generate, Step


async def serve(port: int, ready: asyncio.Event) -> None:
    """Answer every step by the next turn, for ever."""
    app = web.Application()
    app.router.add_post("/typed", _handler(_answer_typed))
    app.router.add_post("/bare", _handler(_answer_bare))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    ready.set()
    await asyncio.Event().wait()


@asynccontextmanager
async def client(port: int, *, typed: bool) -> AsyncGenerator[RoundTrip]:
    """The end that the load is measured at."""
    url = f"http://127.0.0.1:{port}/{'typed' if typed else 'bare'}"
    ask = _ask_typed if typed else _ask_bare
    turn_of = _turn_typed if typed else _turn_bare
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def round_trip(episode: int, turn: int) -> None:
            async with session.post(url, data=ask(episode, turn)) as response:
                if turn_of(await response.read()) != turn:
                    raise RuntimeError("the answer belongs to another turn")

        yield round_trip


def _handler(answer: Callable[[bytes], bytes]) -> Handler:
    async def handle(request: web.Request) -> web.Response:
        body = answer(await request.read())
        return web.Response(body=body, content_type="application/json")

    return handle


_BARE_STEPS = [item.model_dump(mode="json") for item in STEPS]
_BARE_GENERATE = GENERATE.model_dump(mode="json")


def _ask_bare(episode: int, turn: int) -> bytes:
    return orjson.dumps(_BARE_STEPS[episode] | {"turn": turn})


def _answer_bare(body: bytes) -> bytes:
    taken = orjson.loads(body)
    return orjson.dumps(_BARE_GENERATE | {"envelope": taken["envelope"], "turn": taken["turn"]})


def _turn_bare(body: bytes) -> int:
    return orjson.loads(body)["turn"]


def _ask_typed(episode: int, turn: int) -> bytes:
    return numbered(episode, turn).model_dump_json().encode()


def _answer_typed(body: bytes) -> bytes:
    return answer_to(Step.model_validate_json(body)).model_dump_json().encode()


def _turn_typed(body: bytes) -> int:
    return Generate.model_validate_json(body).turn
