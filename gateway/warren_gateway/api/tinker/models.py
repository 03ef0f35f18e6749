"""Models of Tinker's clients: made, made from a checkpoint, looked at."""

from aiohttp import web
from pydantic import ValidationError

from warren_gateway.api.route import Call, reply
from warren_gateway.api.tinker.asking import (
    own_session,
    read_as,
    skipped,
    submitted,
    trained_model,
)
from warren_gateway.api.tinker.errors import invalid
from warren_gateway.api.tinker.route import op_route, tinker_route
from warren_gateway.api.tinker.saved import NO_TOKENS, PUBLISH, has_token, require_no_token
from warren_gateway.tinker.creating import CantCreate, created, created_from
from warren_gateway.tinker.paths import InvalidPath, SavedWeightsPath
from warren_gateway.tinker.results import Noted
from warren_gateway.tinker.runs import NoSuchTrained, Trained
from warren_gateway.trainable.problems import InvalidOp, NoSuchSavedWeights
from warren_schemas.base_models.names import is_uploaded
from warren_schemas.http.trainable import Asking, LoadStateAsked, SkipAsked
from warren_schemas.text.patterns import names_one
from warren_schemas.tinker.answers import Future, ModelData, ModelInfo
from warren_schemas.tinker.requests import (
    CreateModelAsked,
    LoadAsked,
    LoadNew,
    LoadWeights,
    ModelNamed,
)
from warren_schemas.training import is_full
from warren_schemas.users.access import KeyScope


async def create_tinker_model(call: Call[CreateModelAsked]) -> web.StreamResponse:
    takes = call.takes
    session = await own_session(call, takes.session_id)
    _require_trainer(call, takes.base_model)
    try:
        name = await created(call.services.models, call.viewer, session, takes)
    except CantCreate as error:
        raise invalid(f"{error}") from error
    return reply(Future(request_id=f"{name}:create", model_id=name))


async def load_weights(call: Call[LoadAsked]) -> web.StreamResponse:
    """Into a model that there is, as one of its ops; or into a new one."""
    asked = call.takes.root
    if isinstance(asked, LoadNew):
        return await _load_anew(call, asked)
    model, number = asked.model_id, asked.seq_id
    try:
        takes = read_as(asked, LoadWeights)
    except ValidationError as error:
        op, noted = skipped(error, LoadWeights), Noted(model=model)
    else:
        op, noted = await _load_into(call, takes), Noted(model=model, path=takes.path)
    return await submitted(call, model, number, op, noted)


async def _load_anew(call: Call[LoadAsked], takes: LoadNew) -> web.StreamResponse:
    session = await own_session(call, takes.session_id)
    require_no_token(call, takes.weights_access_token)
    try:
        source = await _kept(call, takes.path)
        name = await created_from(call.services.models, call.viewer, session, takes, *source)
    except (CantCreate, InvalidPath, NoSuchTrained, NoSuchSavedWeights, InvalidOp) as error:
        raise invalid(f"{_said(error, takes.path)}") from error
    return reply(Future(request_id=f"{name}:load", model_id=name))


async def _load_into(call: Call[LoadAsked], takes: LoadWeights) -> Asking:
    if has_token(call, takes.weights_access_token):
        return SkipAsked(reason=f"{NO_TOKENS}. {PUBLISH}")
    try:
        source, path = await _kept(call, takes.path)
        of = path.name  # of its own: it may be saved by an op that comes before
        if path.model != takes.model_id:
            of = f"{source.id}/{path.name}"
            await call.services.models.checkpoint(call.viewer, of)
        return LoadStateAsked(checkpoint=of, optimizer=takes.optimizer)
    except (InvalidPath, NoSuchTrained, NoSuchSavedWeights) as error:
        return SkipAsked(reason=_said(error, takes.path))


async def _kept(call: Call[LoadAsked], text: str) -> tuple[Trained, SavedWeightsPath]:
    """Raises `InvalidPath`, `NoSuchTrained`."""
    path = SavedWeightsPath.parse(text)
    if path.kind != "weights":
        raise InvalidPath(
            f"{text} is for samplers; training goes on from tinker://RUN/weights/NAME"
        )
    return await call.services.tinker.models.find(call.viewer, path.model), path


def _said(error: Exception, path: str) -> str:
    return f"There is no checkpoint {path}" if isinstance(error, LookupError) else f"{error}"


async def model_info(call: Call[ModelNamed]) -> web.StreamResponse:
    trained = await trained_model(call, call.takes.model_id)
    spec = trained.spec
    data = ModelData(model_name=spec.base_model, tokenizer_id=spec.base_model)
    return reply(
        ModelInfo(
            model_id=trained.name,
            model_data=data,
            model_name=spec.base_model,
            is_lora=not is_full(spec),
            lora_rank=None if spec.update.kind == "full" else spec.update.rank,
        )
    )


def _require_trainer(call: Call[CreateModelAsked], base_model: str) -> None:
    """Most often it is a name that nobody has. Where a trainer may come to offer it, the model waits for that."""
    possible = call.services.tinker.maybe_trainable()
    if possible and not names_one(possible, base_model):
        told = ", ".join(base for base in possible if not is_uploaded(base)) or "none"
        raise invalid(f"No trainer offers {base_model}; online, or loaded when asked for: {told}")


ROUTES = (
    op_route(
        "create_model",
        create_tinker_model,
        takes=CreateModelAsked,
        summary="Make a model",
        is_routine=False,
    ),
    op_route(
        "load_weights",
        load_weights,
        takes=LoadAsked,
        summary="Go on from a checkpoint, in a new model or in one that there is",
    ),
    tinker_route(
        "POST",
        "get_info",
        model_info,
        takes=ModelNamed,
        answers=ModelInfo,
        summary="Show a model",
        scope=KeyScope.SUBMIT,
        is_routine=True,
        errors=(404,),
    ),
)
