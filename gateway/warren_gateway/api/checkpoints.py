"""A run's checkpoints over HTTP."""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_schemas.http import CheckpointList


async def run_checkpoints(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.parts.runs.checkpoints(call.owner, call.run))


ROUTES = (
    Route(
        "GET",
        "/v1/runs/{run}/checkpoints",
        run_checkpoints,
        takes=Nothing,
        answers=CheckpointList,
        summary="List the checkpoints of a run, oldest first",
        errors=(404, 422),
    ),
)
