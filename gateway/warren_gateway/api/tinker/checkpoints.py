"""One thing that is kept of a training run: its client sets how long it stays, shares it, deletes it."""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, reply
from warren_gateway.api.tinker.errors import invalid
from warren_gateway.api.tinker.kept import CHECKPOINT, named, no_checkpoint, require_kept
from warren_gateway.api.tinker.route import tinker_route
from warren_gateway.models.problems import KeptInUse, NoSuchKept
from warren_schemas.tinker.answers import Empty
from warren_schemas.tinker.requests import TtlAsked
from warren_schemas.users.access import KeyScope, ShareRun


async def delete_checkpoint(call: Call[Nothing]) -> web.StreamResponse:
    trained, asked = await named(call)
    try:
        await call.parts.models.delete_kept(call.viewer, trained.id, asked)
    except NoSuchKept as error:
        raise no_checkpoint(call) from error
    except KeptInUse as error:
        raise invalid(f"{error}".capitalize()) from error  # 409 would be tried again for minutes
    return reply(Empty())


async def set_checkpoint_ttl(call: Call[TtlAsked]) -> web.StreamResponse:
    trained, asked = await named(call)
    try:
        await call.parts.models.set_ttl(call.viewer, trained.id, asked, call.takes.ttl_seconds)
    except NoSuchKept as error:
        raise no_checkpoint(call) from error
    return reply(Empty())


async def publish_checkpoint(call: Call[Nothing]) -> web.StreamResponse:
    """With the others of its run: what is shared is the run."""
    trained, asked = await named(call)
    await require_kept(call, trained, asked)
    await call.parts.sharing.share(call.viewer, trained.run.id, ShareRun())
    return reply(Empty())


async def unpublish_checkpoint(call: Call[Nothing]) -> web.StreamResponse:
    trained, _ = await named(call)
    await call.parts.sharing.unshare(call.viewer, trained.run.id, ShareRun())
    return reply(Empty())


ROUTES = (
    tinker_route(
        "DELETE",
        CHECKPOINT,
        delete_checkpoint,
        takes=Nothing,
        answers=Empty,
        summary="Delete a checkpoint",
        scope=KeyScope.SUBMIT,
        errors=(400, 404),
    ),
    tinker_route(
        "PUT",
        f"{CHECKPOINT}/ttl",
        set_checkpoint_ttl,
        takes=TtlAsked,
        answers=Empty,
        summary="Set how long a checkpoint is kept",
        scope=KeyScope.SUBMIT,
        errors=(404,),
    ),
    tinker_route(
        "POST",
        f"{CHECKPOINT}/publish",
        publish_checkpoint,
        takes=Nothing,
        answers=Empty,
        summary="Share a checkpoint's training run with all users",
        scope=KeyScope.SUBMIT,
        errors=(404,),
    ),
    tinker_route(
        "DELETE",
        f"{CHECKPOINT}/publish",
        unpublish_checkpoint,
        takes=Nothing,
        answers=Empty,
        summary="Share a checkpoint's training run no more",
        scope=KeyScope.SUBMIT,
        errors=(404,),
    ),
)
