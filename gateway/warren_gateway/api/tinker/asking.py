"""Handing an op of a Tinker client to the model that it is for."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from aiohttp import web
from pydantic import BaseModel, ValidationError

from warren_gateway.api.reading import validated
from warren_gateway.api.route import Call, TakesT, reply
from warren_gateway.api.tinker.errors import invalid, no_such
from warren_gateway.store.tables import TinkerSession
from warren_gateway.tinker.results import Noted
from warren_gateway.tinker.runs import NoSuchTrained, Trained
from warren_gateway.tinker.sessions import NoSuchSession
from warren_gateway.trainable.asking import Wanted, wanted
from warren_gateway.trainable.problems import (
    InvalidOp,
    ModelClosed,
    NoSuchSavedWeights,
    NoSuchTrainable,
    RequestConflict,
)
from warren_schemas.http.trainable import Asking, SkipAsked
from warren_schemas.text.explain import explain
from warren_schemas.tinker.answers import Future
from warren_schemas.tinker.requests import OpAsked, OptimStepAsked
from warren_schemas.training import PublishPolicy

MOST_CHARS = 4096
"""Of a reason."""


ReadT = TypeVar("ReadT", bound=BaseModel)


async def submitted_as(
    call: Call[OpAsked], kind: type[ReadT], ask: Callable[[ReadT], tuple[Asking, Noted]]
) -> web.StreamResponse:
    """The future of what `ask` makes of the body, which fails where the body isn't of this kind. Raises `Refusal`."""
    takes = call.takes
    try:
        op, noted = ask(read_as(takes, kind))
    except ValidationError as error:
        op, noted = skipped(error, kind), Noted(model=takes.model_id)
    return await submitted(call, takes.model_id, takes.seq_id, op, noted)


def read_as(takes: OpAsked, kind: type[ReadT]) -> ReadT:
    """Raises `ValidationError`."""
    return validated(takes.model_dump_json(exclude_unset=True).encode(), kind)


def skipped(error: ValidationError, kind: type[BaseModel]) -> SkipAsked:
    reason = "; ".join(explain(error, kind))[:MOST_CHARS]
    return SkipAsked(reason=reason, begins_window=kind is OptimStepAsked)


async def submitted(
    call: Call[TakesT], model: str, number: int, op: Asking, noted: Noted
) -> web.StreamResponse:
    """The future of an op; what can't be an op at all fails as one that can't be applied.

    Raises `Refusal`: none with 409, which the clients try again for minutes.
    """
    submit, viewer = call.services.models.submit, call.viewer
    try:
        found = await call.services.tinker.models.id_of(viewer, model)
        try:
            future = await submit(viewer, found, _wanted(op, noted), sequence=number)
        except (InvalidOp, NoSuchSavedWeights) as error:
            spoils = op.kind == "forward_backward"
            skip = SkipAsked(reason=f"{error}"[:MOST_CHARS], spoils_gradient=spoils)
            future = await submit(viewer, found, _wanted(skip, noted), sequence=number)
    except (NoSuchTrained, NoSuchTrainable) as error:
        raise no_such("model", model) from error
    except (ModelClosed, RequestConflict) as error:
        raise invalid(f"{error}") from error
    return reply(Future(request_id=future, model_id=model))


def _wanted(op: Asking, noted: Noted) -> Wanted:
    """Samplers that are `inflight` move on to what is published for such ones, and to nothing else. Raises `InvalidOp`."""
    want = replace(wanted(op, noted.model_dump()), is_by_number=True)
    if not isinstance(want.body, PublishPolicy):
        return want
    opens = noted.sampler is not None and noted.kind == "snapshot"
    asked = want.asked.model_copy(update={"opens_sampler": opens})
    return replace(want, body=PublishPolicy(is_live=noted.kind == "inflight"), asked=asked)


async def trained_model(call: Call[TakesT], name: str) -> Trained:
    """Raises `Refusal`."""
    try:
        return await call.services.tinker.models.find(call.viewer, name)
    except NoSuchTrained as error:
        raise no_such("model", name) from error


async def own_session(call: Call[TakesT], session_id: str) -> TinkerSession:
    """Of the caller. Raises `Refusal`."""
    try:
        return await call.services.tinker.sessions.find(call.owner, session_id)
    except NoSuchSession as error:
        raise no_such("session", session_id) from error
