"""Routes of the Tinker protocol: what all of them have in common is said here once."""

from collections.abc import Awaitable, Callable

from aiohttp import web
from pydantic import BaseModel

from warren_gateway.api.reading import MAX_BODY_BYTES
from warren_gateway.api.route import Call, Method, MostBytes, Route, Scope, TakesT
from warren_gateway.api.tinker.errors import PREFIX
from warren_schemas.tinker.answers import Future
from warren_schemas.users.access import KeyScope

_OF_A_BODY, _OF_A_QUERY = (400, 413, 422), (422,)


def tinker_route(
    method: Method,
    path: str,
    handler: Callable[[Call[TakesT]], Awaitable[web.StreamResponse]],
    *,
    takes: type[TakesT],
    answers: type[BaseModel],
    summary: str,
    scope: Scope = "any",
    errors: tuple[int, ...] = (),
    is_routine: bool = False,
    media_type: str = "application/json",
    also_answers: str | None = None,
    ends_with_client: bool = False,
    takes_file: bool = False,
    max_body_bytes: MostBytes = MAX_BODY_BYTES,
) -> Route:
    """`path` is what comes behind `/api/v1/`; `errors` those that come beside what any body or query may have."""
    of_what_it_takes = _OF_A_BODY if method in ("POST", "PUT") else _OF_A_QUERY
    return Route(
        method,
        f"{PREFIX}{path}",
        handler,
        takes=takes,
        answers=answers,
        summary=f"{summary} (Tinker-compatible)",
        scope=scope,
        errors=(*of_what_it_takes, *errors),
        is_routine=is_routine,
        media_type=media_type,
        also_answers=also_answers,
        ends_with_client=ends_with_client,
        takes_file=takes_file,
        max_body_bytes=max_body_bytes,
    )


def op_route(
    path: str,
    handler: Callable[[Call[TakesT]], Awaitable[web.StreamResponse]],
    *,
    takes: type[TakesT],
    summary: str,
    is_routine: bool = True,
    takes_file: bool = False,
    max_body_bytes: MostBytes = MAX_BODY_BYTES,
) -> Route:
    """Of what is answered with the future of an op, or of a new model."""
    return tinker_route(
        "POST",
        path,
        handler,
        takes=takes,
        answers=Future,
        summary=summary,
        scope=KeyScope.SUBMIT,
        errors=(404, 429),
        is_routine=is_routine,
        takes_file=takes_file,
        max_body_bytes=max_body_bytes,
    )
