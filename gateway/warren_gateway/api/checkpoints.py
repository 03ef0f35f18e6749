"""A run's checkpoints over HTTP."""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, reply


async def run_checkpoints(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.parts.runs.checkpoints(call.owner, call.run))
