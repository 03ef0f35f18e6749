"""A run's checkpoints over HTTP, and what the run reported around them."""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_schemas.http import CheckpointList, CheckpointMetricsList
from warren_schemas.users.access import KeyScope


async def run_checkpoints(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.runs.checkpoints(call.viewer, call.run))


async def checkpoint_metrics(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.reports.at_checkpoints(call.viewer, call.run))


ROUTES = (
    Route(
        "GET",
        "/v1/runs/{run}/checkpoints",
        run_checkpoints,
        takes=Nothing,
        answers=CheckpointList,
        summary="List the checkpoints of a run, oldest first",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/v1/runs/{run}/checkpoints/metrics",
        checkpoint_metrics,
        takes=Nothing,
        answers=CheckpointMetricsList,
        summary="List the checkpoints of a run with its metrics and evaluations around each",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
)
