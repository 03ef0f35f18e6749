"""A route as data: what it takes, what it answers, and who serves it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, TypeVar

from aiohttp import web
from pydantic import BaseModel

from warren_gateway.api.parts import Parts
from warren_gateway.api.reading import read_body, read_query
from warren_schemas.base import Frozen

TakesT = TypeVar("TakesT", bound=BaseModel)

Scope = Literal["public", "user"]
"""`public` needs no key; `user` needs one and sees what belongs to its owner."""


class Nothing(Frozen):
    """No query parameters, and no body (or an empty object)."""


@dataclass(frozen=True, slots=True)
class Call(Generic[TakesT]):
    """One request, authenticated and validated."""

    request: web.Request
    parts: Parts
    owner: str
    """Empty on public routes."""
    takes: TakesT

    @property
    def run(self) -> str:
        """The run that the path names."""
        return self.request.match_info["run"]


class Route:
    """A path and what serves it. Which `takes` its handler wants is checked where it is made."""

    def __init__(
        self,
        method: Literal["GET", "POST"],
        path: str,
        handler: Callable[[Call[TakesT]], Awaitable[web.StreamResponse]],
        *,
        takes: type[TakesT],
        answers: type[BaseModel],
        summary: str,
        scope: Scope = "user",
        status: int = 200,
        repeated_status: int | None = None,
        errors: tuple[int, ...] = (),
        media_type: str = "application/json",
        streams: type[BaseModel] | None = None,
        ends_with_client: bool = False,
    ) -> None:
        """`takes` are the query parameters of a GET, the body of a POST. What was done before, by its
        idempotency key, is answered with `repeated_status`.

        `errors` are the statuses that this route answers with beside those that every route may. `streams`
        is what each server-sent event holds where the caller may ask for a stream. With `ends_with_client` it stops when the caller is gone; else what was begun is finished.
        """
        self.method: Literal["GET", "POST"] = method
        self.path = path
        self.name = handler.__name__
        self.takes: type[BaseModel] = takes
        self.answers = answers
        self.summary = summary
        self.scope: Scope = scope
        self.status = status
        self.repeated_status = repeated_status or status
        self.errors = errors
        self.media_type = media_type
        self.streams = streams
        self.ends_with_client = ends_with_client
        self._serve = partial(_read_and_handle, takes, handler)

    async def serve(self, request: web.Request, parts: Parts, owner: str) -> web.StreamResponse:
        """Validate what the request brings and hand it to the handler."""
        return await self._serve(request, parts, owner)


async def _read_and_handle(
    takes: type[TakesT],
    handler: Callable[[Call[TakesT]], Awaitable[web.StreamResponse]],
    request: web.Request,
    parts: Parts,
    owner: str,
) -> web.StreamResponse:
    if request.method == "POST":
        given = await read_body(request, takes)
    else:
        given = read_query(request, takes)
    return await handler(Call(request, parts, owner, given))


def reply(body: BaseModel, status: int = 200) -> web.Response:
    return web.Response(
        body=body.model_dump_json().encode(), status=status, content_type="application/json"
    )
