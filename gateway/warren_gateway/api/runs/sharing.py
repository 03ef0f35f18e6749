"""Sharing of runs over HTTP."""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_schemas.users.access import KeyScope, ShareList, ShareRun, ShareView


async def share_run(call: Call[ShareRun]) -> web.StreamResponse:
    return reply(await call.services.sharing.share(call.viewer, call.run, call.takes))


async def unshare_run(call: Call[ShareRun]) -> web.StreamResponse:
    left = await call.services.sharing.unshare(call.viewer, call.run, call.takes)
    return reply(ShareList(shares=left))


async def list_shares(call: Call[Nothing]) -> web.StreamResponse:
    return reply(ShareList(shares=await call.services.sharing.listed(call.viewer)))


ROUTES = (
    Route(
        "POST",
        "/v1/runs/{run}/share",
        share_run,
        takes=ShareRun,
        answers=ShareView,
        summary="Let a user, or everybody, read a run and use what it made",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "POST",
        "/v1/runs/{run}/unshare",
        unshare_run,
        takes=ShareRun,
        answers=ShareList,
        summary="Stop sharing a run with a user, or with everybody; answers what is left",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "GET",
        "/v1/shares",
        list_shares,
        takes=Nothing,
        answers=ShareList,
        summary="List what you share and what is shared with you, by kind, newest first",
        scope=KeyScope.READ,
        errors=(422,),
    ),
)
