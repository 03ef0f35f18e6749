"""A server that reads what an agent says and answers at once: `python -m benchmarks.agents.bare`.

It prints the address that it listens at. What it costs is what any HTTP server of ours costs before it does anything.
"""

import asyncio

import orjson
from aiohttp import web
from benchmarks.agents.players import SAID

_ANSWER = orjson.dumps({"choices": [{"message": {"role": "assistant", "content": SAID}}]})


async def _main() -> None:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", _answer)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


async def _answer(request: web.Request) -> web.Response:
    orjson.loads(await request.read())
    return web.Response(body=_ANSWER, content_type="application/json")


if __name__ == "__main__":
    asyncio.run(_main())
