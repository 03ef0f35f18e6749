"""A route as data: what it takes, what it answers, and who serves it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Route(Generic[TakesT]):
    method: Literal["GET", "POST"]
    path: str
    handler: Callable[[Call[TakesT]], Awaitable[web.StreamResponse]]
    takes: type[TakesT]
    """The query parameters of a GET, the body of a POST."""
    answers: type[BaseModel]
    summary: str
    scope: Scope = "user"
    status: int = 200
    errors: tuple[int, ...] = ()
    """Statuses that this route answers with beside those that every route may."""
    media_type: str = "application/json"
    ends_with_client: bool = False
    """Stop when the caller is gone. Without it what was begun is finished."""

    async def serve(self, request: web.Request, parts: Parts, owner: str) -> web.StreamResponse:
        """Validate what the request brings and hand it to the handler."""
        if self.method == "POST":
            takes = await read_body(request, self.takes)
        else:
            takes = read_query(request, self.takes)
        return await self.handler(Call(request, parts, owner, takes))


def reply(body: BaseModel, status: int = 200) -> web.Response:
    return web.Response(
        body=body.model_dump_json().encode(), status=status, content_type="application/json"
    )
