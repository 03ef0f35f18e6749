"""Runs over HTTP."""

from typing import Annotated

from aiohttp import web
from pydantic import Field

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_schemas.base import Frozen
from warren_schemas.events import RunState
from warren_schemas.http import RunDeleted, RunList, RunView, SubmitRun, SweepName
from warren_schemas.ids import RunId
from warren_schemas.users.access import KeyScope


class ListRuns(Frozen):
    state: RunState | None = None
    """Only runs in this state."""
    shared: bool = False
    """Those of others that are shared with you, not yours."""
    sweep: SweepName | None = None
    """Only runs of this sweep."""
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    """Most runs to list."""


async def submit_run(call: Call[SubmitRun]) -> web.StreamResponse:
    run, is_new = await call.services.runs.submit_run(call.viewer, call.takes)
    return reply(run, status=201 if is_new else 200)


async def list_runs(call: Call[ListRuns]) -> web.StreamResponse:
    takes = call.takes
    runs = await call.services.runs.newest(
        call.viewer, takes.state, takes.limit, shared=takes.shared, sweep=takes.sweep
    )
    return reply(RunList(runs=tuple(runs)))


async def show_run(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.runs.show(call.viewer, call.run))


async def delete_run(call: Call[Nothing]) -> web.StreamResponse:
    await call.services.runs.delete(call.viewer, call.run)
    return reply(RunDeleted(id=RunId(call.run)))


ROUTES = (
    Route(
        "POST",
        "/v1/runs",
        submit_run,
        takes=SubmitRun,
        answers=RunView,
        summary="Submit a run; a repeated idempotency key answers 200 with the existing run",
        scope=KeyScope.SUBMIT,
        status=201,
        repeated_status=200,
        errors=(400, 403, 409, 413, 422, 429),
    ),
    Route(
        "GET",
        "/v1/runs",
        list_runs,
        takes=ListRuns,
        answers=RunList,
        summary="List runs, newest first",
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "GET",
        "/v1/runs/{run}",
        show_run,
        takes=Nothing,
        answers=RunView,
        summary="Show a run",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "POST",
        "/v1/runs/{run}/delete",
        delete_run,
        takes=Nothing,
        answers=RunDeleted,
        summary="Delete an ended run with its recording, checkpoints and policies",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 409, 413, 422),
    ),
)
