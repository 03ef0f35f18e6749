"""Handing an op of a Tinker client to the model that it is for."""

from aiohttp import web

from warren_gateway.api.route import Call, TakesT, reply
from warren_gateway.api.tinker.errors import invalid, no_such
from warren_gateway.models.asking import wanted
from warren_gateway.models.problems import InvalidOp, NoSuchTrainable, RequestConflict
from warren_gateway.tinker.results import Noted
from warren_gateway.tinker.runs import NoSuchTrained, Trained
from warren_schemas.http.trainable import Asking, SkipAsked
from warren_schemas.tinker.answers import Future

MOST_CHARS = 4096
"""Of a reason."""


async def submitted(
    call: Call[TakesT], model: str, number: int, op: Asking, noted: Noted
) -> web.StreamResponse:
    """The future of an op; what can't be an op at all fails as one that can't be applied. Raises `Refusal`."""
    submit, viewer, extra = call.parts.models.submit, call.viewer, noted.model_dump()
    try:
        found = await call.parts.tinker.models.id_of(viewer, model)
        try:
            future = await submit(viewer, found, wanted(op, extra), sequence=number)
        except InvalidOp as error:
            spoils = op.kind == "forward_backward"
            skip = SkipAsked(reason=f"{error}"[:MOST_CHARS], spoils_gradient=spoils)
            future = await submit(viewer, found, wanted(skip, extra), sequence=number)
    except (NoSuchTrained, NoSuchTrainable) as error:
        raise no_such("model", model) from error
    except RequestConflict as error:
        raise invalid(f"{error}") from error
    return reply(Future(request_id=future, model_id=model))


async def trained_model(call: Call[TakesT], name: str) -> Trained:
    """Raises `Refusal`."""
    try:
        return await call.parts.tinker.models.find(call.viewer, name)
    except NoSuchTrained as error:
        raise no_such("model", name) from error
