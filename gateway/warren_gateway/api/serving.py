"""Names under which models are served, over HTTP."""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_schemas.http import RemoveServed, ServedList, ServedView, ServeModel
from warren_schemas.users.access import KeyScope


async def serve_model(call: Call[ServeModel]) -> web.StreamResponse:
    return reply(await call.services.names.point(call.viewer, call.takes))


async def list_served(call: Call[Nothing]) -> web.StreamResponse:
    return reply(ServedList(served=await call.services.names.listed(call.viewer)))


async def remove_served(call: Call[RemoveServed]) -> web.StreamResponse:
    return reply(await call.services.names.remove(call.viewer, call.takes))


ROUTES = (
    Route(
        "POST",
        "/v1/served",
        serve_model,
        takes=ServeModel,
        answers=ServedView,
        summary="Serve a base model or a policy of a run under a name, or point the name elsewhere",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "GET",
        "/v1/served",
        list_served,
        takes=Nothing,
        answers=ServedList,
        summary="List the names that you serve models under, and those that you may use",
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "POST",
        "/v1/served/remove",
        remove_served,
        takes=RemoveServed,
        answers=ServedView,
        summary="Stop serving a name",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
)
