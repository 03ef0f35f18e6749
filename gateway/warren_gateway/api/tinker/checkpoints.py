"""One thing that is kept of a training run: its client sets how long it stays, shares it, copies it, deletes it."""

from dataclasses import replace

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, reply
from warren_gateway.api.tinker.asking import own_session
from warren_gateway.api.tinker.errors import invalid, no_such
from warren_gateway.api.tinker.route import tinker_route
from warren_gateway.api.tinker.saved import (
    CHECKPOINT,
    named,
    no_checkpoint,
    require_kept,
    require_no_token,
    saved_of,
)
from warren_gateway.runs.service import KeyReused
from warren_gateway.tinker.paths import InvalidPath, SavedWeightsPath, key_of, model_name
from warren_gateway.tinker.runs import NoSuchTrained
from warren_gateway.tinker.sessions import TooManySessions
from warren_gateway.trainable.copied_rows import CopyAsked
from warren_gateway.trainable.problems import CantCopy, NoSuchSavedWeights, SavedWeightsInUse
from warren_schemas.tinker.answers import Empty, WeightsCopied
from warren_schemas.tinker.requests import CopyWeights, CreateSession, TtlAsked
from warren_schemas.users.access import KeyScope, ShareRun

KEY = "X-Idempotency-Key"
"""Header that is the same however often a request for a copy is sent."""


async def delete_checkpoint(call: Call[Nothing]) -> web.StreamResponse:
    trained, asked = await named(call)
    try:
        await call.services.models.delete_saved(call.viewer, trained.id, asked)
    except NoSuchSavedWeights as error:
        raise no_checkpoint(call) from error
    except SavedWeightsInUse as error:
        raise invalid(f"{error}".capitalize()) from error  # 409 would be tried again for minutes
    return reply(Empty())


async def set_checkpoint_ttl(call: Call[TtlAsked]) -> web.StreamResponse:
    trained, asked = await named(call)
    try:
        await call.services.models.set_ttl(call.viewer, trained.id, asked, call.takes.ttl_seconds)
    except NoSuchSavedWeights as error:
        raise no_checkpoint(call) from error
    return reply(Empty())


async def publish_checkpoint(call: Call[Nothing]) -> web.StreamResponse:
    """With the others of its run: what is shared is the run."""
    trained, asked = await named(call)
    await require_kept(call, trained, asked)
    await call.services.sharing.share(call.viewer, trained.run.id, ShareRun())
    return reply(Empty())


async def unpublish_checkpoint(call: Call[Nothing]) -> web.StreamResponse:
    trained, _ = await named(call)
    await call.services.sharing.unshare(call.viewer, trained.run.id, ShareRun())
    return reply(Empty())


async def copy_weights(call: Call[CopyWeights]) -> web.StreamResponse:
    """What is copied has its name in the new training run."""
    takes = call.takes
    require_no_token(call, takes.weights_access_token)
    copy = await _slot(call)
    try:
        path = SavedWeightsPath.parse(takes.source_path)
        trained = await call.services.tinker.models.find(call.viewer, path.model)
        asked = CopyAsked(trained.id, saved_of(path), key_of(copy), takes.ttl_seconds)
        await call.services.tinker.copies.copy(call.viewer, asked)
    except InvalidPath as error:
        raise invalid(f"{error}") from error
    except (NoSuchTrained, NoSuchSavedWeights) as error:
        raise no_such("checkpoint", takes.source_path) from error
    except KeyReused as error:
        raise invalid(f"{copy} was made before, of something else") from error
    except CantCopy as error:
        raise invalid(f"{takes.source_path} can't be copied: {error}") from error
    return reply(WeightsCopied(tinker_path=f"{replace(path, model=copy)}"))


async def _slot(call: Call[CopyWeights]) -> str:
    """Name of the training run: the same one where the request comes again. Raises `Refusal`."""
    takes = call.takes
    if takes.session_id is not None and takes.model_seq_id is not None:
        await own_session(call, takes.session_id)
        return model_name(takes.session_id, takes.model_seq_id)
    if takes.destination_project_id is None:
        raise invalid("Tell destination_project_id, or session_id and model_seq_id")
    wanted = CreateSession(project_id=takes.destination_project_id)
    key = call.request.headers.get(KEY)
    try:
        session = await call.services.tinker.sessions.create(call.owner, wanted, key)
    except TooManySessions as error:
        raise invalid(f"{error}") from error
    return model_name(session.id, 0)


ROUTES = (
    tinker_route(
        "POST",
        "copy_weights",
        copy_weights,
        takes=CopyWeights,
        answers=WeightsCopied,
        summary="Copy a checkpoint into a training run of its own",
        scope=KeyScope.SUBMIT,
        errors=(404,),
    ),
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
