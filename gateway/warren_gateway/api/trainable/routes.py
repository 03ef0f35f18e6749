"""Models that clients train by loops of their own, over HTTP."""

from typing import Annotated

import numpy as np
from aiohttp import web
from pydantic import Field

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.tinker.paths import keys_of
from warren_gateway.trainable.asking import wanted
from warren_gateway.trainable.outcomes import Done, Failed, Outcome
from warren_gateway.trainable.problems import InvalidOp
from warren_schemas.base import Frozen
from warren_schemas.fields.arrays import Logprobs
from warren_schemas.http.model_ops import ModelOpList
from warren_schemas.http.trainable import (
    AskOp,
    CreateModel,
    FutureAnswer,
    FutureDone,
    FutureFailed,
    FuturePending,
    FutureView,
    PublishedPolicy,
    SavedName,
    SavedWeights,
    SetTtl,
    TrainableList,
    TrainableView,
)
from warren_schemas.ids import ModelId
from warren_schemas.training import OpDone
from warren_schemas.users.access import KeyScope

MAX_OP_BYTES = 32 * 1024 * 1024
"""An op as JSON; on its way to the trainer it is a quarter of that."""


class ModelsWanted(Frozen):
    limit: Annotated[int, Field(ge=1, le=500)] = 50


class OpsWanted(Frozen):
    limit: Annotated[int, Field(ge=1, le=100)] = 20


class OutcomeWanted(Frozen):
    wait_s: Annotated[float, Field(ge=0, le=60)] = 0.0
    """How long to wait for it."""


async def create_model(call: Call[CreateModel]) -> web.StreamResponse:
    if (call.takes.key or "").startswith(keys_of()):
        raise InvalidOp(
            [f"key: those that begin with {keys_of()} are of Tinker's clients; take another"]
        )
    model, is_new = await call.services.models.create(call.viewer, call.takes)
    return reply(model, status=201 if is_new else 200)


async def list_trainable(call: Call[ModelsWanted]) -> web.StreamResponse:
    models = await call.services.models.newest(call.viewer, call.takes.limit)
    return reply(TrainableList(models=tuple(models)))


async def show_trainable(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.models.info(call.viewer, _model(call)))


async def ask_op(call: Call[AskOp]) -> web.StreamResponse:
    model, asked = _model(call), call.takes
    future = await call.services.models.submit(
        call.viewer, model, wanted(asked.op), key=asked.key, sequence=asked.sequence
    )
    return reply(FutureView(future=future, model=ModelId(model)))


async def list_ops(call: Call[OpsWanted]) -> web.StreamResponse:
    model, limit = call.request.match_info["model"], call.takes.limit
    return reply(ModelOpList(ops=await call.services.models.ops.of(call.viewer, model, limit)))


async def show_outcome(call: Call[OutcomeWanted]) -> web.StreamResponse:
    future = call.request.match_info["future"]
    outcome = await call.services.models.outcome(call.viewer, future, call.takes.wait_s)
    return reply(FutureAnswer(outcome=told(outcome)))


async def hear_client(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.models.heard(call.viewer, _model(call)))


async def close_model(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.models.close(call.viewer, _model(call)))


async def list_saved(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.models.saved_weights(call.viewer, _model(call)))


async def delete_saved(call: Call[SavedName]) -> web.StreamResponse:
    return reply(await call.services.models.delete_saved(call.viewer, _model(call), call.takes))


async def set_ttl(call: Call[SetTtl]) -> web.StreamResponse:
    model, asked = _model(call), call.takes
    await call.services.models.set_ttl(call.viewer, model, asked, asked.ttl_s)
    return reply(await call.services.models.saved_weights(call.viewer, model))


def told(outcome: Outcome) -> FutureDone | FutureFailed | FuturePending:
    """What came of an op, as a body."""
    request = outcome.request
    if isinstance(outcome, Failed):
        return FutureFailed(
            future=request.id,
            kind=request.kind,
            category=outcome.category,
            reason=outcome.reason,
        )
    if not isinstance(outcome, Done):
        return FuturePending(
            future=request.id,
            kind=request.kind,
            reason=outcome.reason,
            n_ahead=outcome.n_ahead,
        )
    op, name = outcome.outcome, request.asked.name
    is_saved = op.checkpoint_url is not None
    return FutureDone(
        future=request.id,
        kind=request.kind,
        version=op.version,
        metrics=op.metrics,
        logprobs=_by_datum(op, request.asked.lengths),
        checkpoint=f"{request.model}/{name}" if is_saved and name else None,
        policy=_policy(request.model, name, op),
    )


def _by_datum(op: OpDone, lengths: list[int]) -> tuple[Logprobs, ...] | None:
    if op.logprobs_N is None:
        return None
    ends = np.cumsum(lengths)[:-1]
    return tuple(np.split(op.logprobs_N, ends))


def _policy(model: ModelId, name: str | None, op: OpDone) -> PublishedPolicy | None:
    if op.policy is None:
        return None
    which = op.policy.version if name is None else name
    return PublishedPolicy(version=op.policy.version, model=f"{model}@{which}", url=op.policy.url)


def _model(call: Call[AskOp] | Call[Nothing] | Call[SavedName] | Call[SetTtl]) -> str:
    return call.request.match_info["model"]


ROUTES = (
    Route(
        "POST",
        "/v1/trainable",
        create_model,
        takes=CreateModel,
        answers=TrainableView,
        summary="Create a model that you train by a loop of your own",
        scope=KeyScope.SUBMIT,
        status=201,
        repeated_status=200,
        errors=(400, 404, 409, 413, 422, 429),
    ),
    Route(
        "GET",
        "/v1/trainable",
        list_trainable,
        takes=ModelsWanted,
        answers=TrainableList,
        summary="List the models that clients train, newest first",
        scope=KeyScope.READ,
        errors=(400, 422),
    ),
    Route(
        "GET",
        "/v1/trainable/{model}",
        show_trainable,
        takes=Nothing,
        answers=TrainableView,
        summary="Show a model that a client trains",
        scope=KeyScope.READ,
        errors=(400, 404, 422),
    ),
    Route(
        "POST",
        "/v1/trainable/{model}/ops",
        ask_op,
        takes=AskOp,
        answers=FutureView,
        summary="Ask for an op of a model: forward, forward_backward, optim_step, save_state, load_state, publish",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 409, 413, 422, 429),
        max_body_bytes=MAX_OP_BYTES,
        is_routine=True,
    ),
    Route(
        "GET",
        "/v1/trainable/{model}/ops",
        list_ops,
        takes=OpsWanted,
        answers=ModelOpList,
        summary="List the newest ops of a model whose outcomes are kept, newest first",
        scope=KeyScope.READ,
        errors=(400, 404, 422),
    ),
    Route(
        "GET",
        "/v1/futures/{future}",
        show_outcome,
        takes=OutcomeWanted,
        answers=FutureAnswer,
        summary="Show what came of an op, waited for if asked",
        scope=KeyScope.READ,
        errors=(400, 404, 422),
        ends_with_client=True,
    ),
    Route(
        "POST",
        "/v1/trainable/{model}/heard",
        hear_client,
        takes=Nothing,
        answers=TrainableView,
        summary="Say that the client of a model is still there",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 409, 413, 422),
        is_routine=True,
    ),
    Route(
        "POST",
        "/v1/trainable/{model}/close",
        close_model,
        takes=Nothing,
        answers=TrainableView,
        summary="Close a model: save it and give its trainer back",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "GET",
        "/v1/trainable/{model}/kept",
        list_saved,
        takes=Nothing,
        answers=SavedWeights,
        summary="List the checkpoints and snapshots of a model",
        scope=KeyScope.READ,
        errors=(400, 404, 422),
    ),
    Route(
        "POST",
        "/v1/trainable/{model}/kept/delete",
        delete_saved,
        takes=SavedName,
        answers=SavedWeights,
        summary="Delete a checkpoint or a snapshot of a model",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/trainable/{model}/kept/ttl",
        set_ttl,
        takes=SetTtl,
        answers=SavedWeights,
        summary="Say how long a checkpoint or a snapshot of a model is kept",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
)
