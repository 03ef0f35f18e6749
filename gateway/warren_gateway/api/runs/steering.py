"""What owners ask of runs that go on, over HTTP."""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_schemas.http import CancelRun, RunView, SetRun
from warren_schemas.http.runs import ClientLease
from warren_schemas.users.access import KeyScope


async def cancel_run(call: Call[CancelRun]) -> web.StreamResponse:
    save = call.takes.save
    return reply(await call.services.runs.cancel(call.viewer, call.run, save=save))


async def finish_run(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.runs.finish(call.viewer, call.run))


async def pause_run(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.runs.pause(call.viewer, call.run))


async def resume_run(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.runs.resume(call.viewer, call.run))


async def renew_run(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.client_leases.renew(call.viewer, call.run))


async def retry_run(call: Call[Nothing]) -> web.StreamResponse:
    run, is_new = await call.services.runs.retry(call.viewer, call.run)
    return reply(run, status=201 if is_new else 200)


async def set_run(call: Call[SetRun]) -> web.StreamResponse:
    return reply(await call.services.runs.change(call.viewer, call.run, call.takes))


_ERRORS = (400, 404, 409, 413, 422)

ROUTES = (
    Route(
        "POST",
        "/v1/runs/{run}/cancel",
        cancel_run,
        takes=CancelRun,
        answers=RunView,
        summary="Cancel a run, with `save` once a checkpoint is written",
        scope=KeyScope.SUBMIT,
        errors=_ERRORS,
    ),
    Route(
        "POST",
        "/v1/runs/{run}/finish",
        finish_run,
        takes=Nothing,
        answers=RunView,
        summary="End a run early: no more steps, the last evaluation, a checkpoint, completed",
        scope=KeyScope.SUBMIT,
        errors=_ERRORS,
    ),
    Route(
        "POST",
        "/v1/runs/{run}/pause",
        pause_run,
        takes=Nothing,
        answers=RunView,
        summary="Save a run and give its trainer back until it is resumed",
        scope=KeyScope.SUBMIT,
        errors=_ERRORS,
    ),
    Route(
        "POST",
        "/v1/runs/{run}/resume",
        resume_run,
        takes=Nothing,
        answers=RunView,
        summary="Resume a paused run; it queues for a trainer",
        scope=KeyScope.SUBMIT,
        errors=(*_ERRORS, 429),
    ),
    Route(
        "POST",
        "/v1/runs/{run}/set",
        set_run,
        takes=SetRun,
        answers=RunView,
        summary="Set limits and the priority of a run that is not over; a priority above 0 takes an admin",
        scope=KeyScope.SUBMIT,
        errors=(*_ERRORS, 403),
    ),
    Route(
        "POST",
        "/v1/runs/{run}/renew",
        renew_run,
        takes=Nothing,
        answers=ClientLease,
        summary="Say that the client of a run is there, where the run ends with its client",
        scope=KeyScope.SUBMIT,
        errors=_ERRORS,
        is_routine=True,
    ),
    Route(
        "POST",
        "/v1/runs/{run}/retry",
        retry_run,
        takes=Nothing,
        answers=RunView,
        summary="Submit a run that goes on from the newest checkpoint of one that failed or was cancelled",
        scope=KeyScope.SUBMIT,
        status=201,
        repeated_status=200,
        errors=(*_ERRORS, 429),
    ),
)
