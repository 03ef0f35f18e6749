"""Errors as answers: every one is a `Problem` that says what to do, told as the route tells errors.

The middleware here is a supervisor's edge: an exception that nobody foresaw is logged with an id
and its traceback, and the caller gets the id alone.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware
from pydantic import BaseModel

from warren_broker.errors import BrokerError
from warren_gateway.access.problems import (
    KeyHasEnded,
    NoSuchKey,
    NoSuchUser,
    NotPermitted,
    UserConflict,
)
from warren_gateway.adapters.refusals import ADAPTER_PROBLEMS, of_adapters
from warren_gateway.base_models.refusals import BASE_MODEL_PROBLEMS, of_base_models
from warren_gateway.budgets.budget import OverBudget
from warren_gateway.datasets.problems import (
    DatasetInUse,
    FilesUnavailable,
    FullFolder,
    NoSuchDataset,
    OutOfOrder,
    UnusableDataset,
    WrongUpload,
)
from warren_gateway.inference.names import NoSuchName
from warren_gateway.inference.pinning import CannotServe
from warren_gateway.runs.refusals import RUN_PROBLEMS, of_runs
from warren_gateway.store.store import StoreUnavailable
from warren_gateway.trainable.refusals import MODEL_PROBLEMS, of_models
from warren_schemas.http import Problem
from warren_schemas.ids import new_id

RETRY_AFTER_S = 2

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Told = Callable[[str, int, Problem], tuple[int, BaseModel]]
"""(path, status, problem) -> status and body, as the clients of that path read errors."""

_ACCESS = (KeyHasEnded, NoSuchKey, NoSuchUser, NotPermitted, UserConflict)
_DATASETS = (
    DatasetInUse,
    FilesUnavailable,
    NoSuchDataset,
    OutOfOrder,
    UnusableDataset,
    WrongUpload,
)
_NAMES = (CannotServe, NoSuchName)
_OURS = (
    *RUN_PROBLEMS, *_NAMES, *_ACCESS, *_DATASETS, *ADAPTER_PROBLEMS, *BASE_MODEL_PROBLEMS, *MODEL_PROBLEMS,
    OverBudget, StoreUnavailable, BrokerError,
)  # fmt: skip


class Refusal(Exception):
    """Answer with this problem."""

    def __init__(
        self, status: int, problem: Problem, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, problem.code)
        self.status = status
        self.problem = problem
        self.headers = dict(headers or {})


def answering_problems(told: Told) -> Middleware:
    @web.middleware
    async def answer_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001  the edge: everything becomes an answer
            refusal = _refusal(request, error)
        status, body = told(request.path, refusal.status, refusal.problem)
        return web.Response(
            body=body.model_dump_json().encode(),
            status=status,
            headers=refusal.headers,
            content_type="application/json",
        )

    return answer_problems


def _refusal(request: web.Request, error: Exception) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, web.HTTPException):
        return _of_aiohttp(request, error)
    if isinstance(error, _OURS):
        refusal = _of_ours(error)
        if refusal.status == 503:
            log.warning("%s: %s", refusal.problem.message, error)
        _require_unanswered(request, error)
        return refusal
    error_id = new_id("error")
    log.exception("%s: %s %s failed", error_id, request.method, request.path)
    _require_unanswered(request, error)
    return _unexpected(error_id)


def _require_unanswered(request: web.Request, error: Exception) -> None:
    """Where an answer has begun, all that is left is to cut it off."""
    if request.writer.output_size > 0:
        raise error


def status_of(error: Exception) -> int:
    """What the caller is answered."""
    if isinstance(error, Refusal):
        return error.status
    if isinstance(error, web.HTTPException):
        return error.status
    return _of_ours(error).status if isinstance(error, _OURS) else 500


def _of_ours(error: Exception) -> Refusal:
    if isinstance(error, RUN_PROBLEMS):
        return Refusal(*of_runs(error))
    if isinstance(error, _NAMES):
        return _of_names(error)
    if isinstance(error, _ACCESS):
        return _of_access(error)
    if isinstance(error, _DATASETS):
        return _of_datasets(error)
    if isinstance(error, ADAPTER_PROBLEMS):
        return Refusal(*of_adapters(error))
    if isinstance(error, BASE_MODEL_PROBLEMS):
        return Refusal(*of_base_models(error))
    if isinstance(error, MODEL_PROBLEMS):
        return Refusal(*of_models(error))
    if isinstance(error, OverBudget):
        return _over_budget(error)
    return _away("store" if isinstance(error, StoreUnavailable) else "broker")


def _of_names(error: NoSuchName | CannotServe) -> Refusal:
    match error:
        case NoSuchName():
            message, hint = f"You serve nothing as {error}.", "`warren serve ls` lists your names."
            return Refusal(404, Problem(code="no_such_name", message=message, hint=hint))
        case CannotServe():
            problem = Problem(code="cannot_serve", message=f"{error}.", hint=error.hint)
            return Refusal(409, problem)


def _of_access(
    error: KeyHasEnded | NoSuchKey | NoSuchUser | NotPermitted | UserConflict,
) -> Refusal:
    match error:
        case NoSuchKey():
            status, code, hint = 404, "no_such_key", "`warren keys ls` lists yours."
        case KeyHasEnded():
            status, code, hint = 409, "key_has_ended", "`warren keys create` makes a new one."
        case NoSuchUser():
            status, code, hint = 404, "no_such_user", "`warren users ls` lists them."
        case NotPermitted():
            status, code, hint = 403, "forbidden", "`warren keys ls` shows what each key may do."
        case UserConflict():
            status, code, hint = 409, "user_conflict", "`warren users ls` lists them."
    return Refusal(status, Problem(code=code, message=f"{error}.", hint=hint))


def _of_datasets(
    error: DatasetInUse
    | FilesUnavailable
    | NoSuchDataset
    | OutOfOrder
    | UnusableDataset
    | WrongUpload,
) -> Refusal:
    message = f"{error}."
    match error:
        case NoSuchDataset():
            hint = "`warren data ls` lists yours and those that are shared with you."
            return Refusal(
                404,
                Problem(
                    code="no_such_dataset", message=f"There is no data set {message}", hint=hint
                ),
            )
        case WrongUpload():
            hint = "Correct it and upload it again; nothing was stored."
            return Refusal(422, Problem(code="wrong_upload", message=message, hint=hint))
        case OutOfOrder():
            return Refusal(
                409, Problem(code="upload_out_of_order", message=message, hint="Go on from there.")
            )
        case DatasetInUse():
            return Refusal(409, Problem(code="dataset_in_use", message=message))
        case UnusableDataset():
            hint = "`warren data ls` lists yours and those that are shared with you."
            message = "The config has 1 mistake."
            return Refusal(
                422,
                Problem(code="invalid_config", message=message, details=(str(error),), hint=hint),
            )
        case FullFolder():
            log.warning("%s", error)
            message = f"The gateway's {error.folder} is full; nothing was stored."
            hint = "Its operator can make room, and so can you: `warren data rm NAME`, `warren adapters rm NAME`."
            return Refusal(507, Problem(code="storage_full", message=message, hint=hint))
        case FilesUnavailable():
            log.warning("%s", error)
            return _away(error.folder)


def _over_budget(error: OverBudget) -> Refusal:
    problem = Problem(
        code="over_budget",
        message=f"{error}.",
        hint="Try again when some of it is done; GET /v1/budgets shows what is in use and the limits.",
    )
    return Refusal(429, problem, {"Retry-After": str(RETRY_AFTER_S)})


def _away(what: str) -> Refusal:
    problem = Problem(
        code=f"{what.replace(' ', '_')}_unavailable",
        message=f"The gateway can't reach its {what}; nothing was changed.",
        hint=f"Try again in {RETRY_AFTER_S} s; GET /healthz shows when it is back.",
    )
    return Refusal(503, problem, {"Retry-After": str(RETRY_AFTER_S)})


def _of_aiohttp(request: web.Request, error: web.HTTPException) -> Refusal:
    """What aiohttp itself refuses: unknown routes and wrong methods."""
    code = HTTPStatus(error.status).name.lower()
    messages = {
        404: (f"There is nothing at {request.path}.", "GET /openapi.json lists all routes."),
        405: (f"{request.path} does not take {request.method}.", "See the Allow header."),
    }
    message, hint = messages.get(error.status, (f"{error.reason}.", None))
    headers = {name: error.headers[name] for name in ("Allow",) if name in error.headers}
    return Refusal(error.status, Problem(code=code, message=message, hint=hint), headers)


def _unexpected(error_id: str) -> Refusal:
    problem = Problem(
        code="internal_error",
        message=f"Internal error of the gateway ({error_id}); see its log.",
        hint="Try again; if it happens again, report it with this id.",
    )
    return Refusal(500, problem)
