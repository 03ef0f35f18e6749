"""Steps over plain HTTP: one POST for each, keep-alive, JSON by orjson, nothing validated."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import orjson
from aiohttp import web
from benchmarks.transport.load import RoundTrip
from tests.support.items import generate, step


async def serve(port: int) -> None:
    """Answer every step by the next turn, for ever."""
    template = generate().model_dump(mode="json")

    async def answer(request: web.Request) -> web.Response:
        taken = orjson.loads(await request.read())
        body = template | {"envelope": taken["envelope"], "turn": taken["turn"]}
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    app = web.Application()
    app.router.add_post("/step", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
    await asyncio.Event().wait()


@asynccontextmanager
async def client(port: int) -> AsyncGenerator[RoundTrip]:
    """The end that the load is measured at."""
    templates = [step(f"{number}").model_dump(mode="json") for number in range(1024)]
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def round_trip(episode: int, turn: int) -> None:
            body = orjson.dumps(templates[episode] | {"turn": turn})
            async with session.post(f"http://127.0.0.1:{port}/step", data=body) as response:
                if orjson.loads(await response.read())["turn"] != turn:
                    raise RuntimeError("the answer belongs to another turn")

        yield round_trip
