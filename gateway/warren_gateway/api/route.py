"""A route as data: what it takes, what it answers, and who serves it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Literal, TypeVar

from aiohttp import web
from pydantic import BaseModel

from warren_gateway.access.caller import Caller, Viewer
from warren_gateway.api.reading import MAX_BODY_BYTES, read_body, read_query
from warren_gateway.api.services import Services
from warren_gateway.until_first import until_first
from warren_schemas.base import Frozen
from warren_schemas.users.access import KeyScope

TakesT = TypeVar("TakesT", bound=BaseModel)

Scope = KeyScope | Literal["public", "any"]
"""What a key must be good for; `any` good key will do, and `public` needs none."""
Method = Literal["GET", "POST", "PUT", "DELETE"]
MostBytes = int | Callable[[Services], int]
"""Of a body; or what says it of this gateway, where its operator sets it."""
NOBODY = Caller("", "", frozenset())
"""Who calls a public route."""


class Nothing(Frozen):
    """No query parameters, and no body (or an empty object)."""


@dataclass(frozen=True, slots=True)
class Call(Generic[TakesT]):
    """One request, authenticated and validated."""

    request: web.Request
    services: Services
    caller: Caller
    takes: TakesT
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the caller's key is no longer good."""

    async def over(self) -> None:
        """Return when nothing more may be sent: the gateway stops, or the key is no longer good."""
        await until_first(self.services.closing.wait(), self.lost.wait())

    @property
    def is_over(self) -> bool:
        return self.services.closing.is_set() or self.lost.is_set()

    @property
    def owner(self) -> str:
        """Whose everything is that this call makes."""
        return self.caller.user

    @property
    def viewer(self) -> Viewer:
        """Who looks: an admin sees what belongs to others, too."""
        return self.caller.viewer

    @property
    def run(self) -> str:
        """The run that the path names."""
        return self.request.match_info["run"]


class Route:
    """A path and what serves it. Which `takes` its handler wants is checked where it is made."""

    def __init__(
        self,
        method: Method,
        path: str,
        handler: Callable[[Call[TakesT]], Awaitable[web.StreamResponse]],
        *,
        takes: type[TakesT],
        answers: type[BaseModel],
        summary: str,
        scope: Scope,
        is_routine: bool = False,
        status: int = 200,
        repeated_status: int | None = None,
        errors: tuple[int, ...] = (),
        media_type: str = "application/json",
        streams: type[BaseModel] | None = None,
        also_answers: str | None = None,
        ends_with_client: bool = False,
        takes_file: bool = False,
        max_body_bytes: MostBytes = MAX_BODY_BYTES,
    ) -> None:
        """`takes` are the body of a POST or PUT, else the query parameters; with `takes_file` the query parameters,
        and the body is bytes that the handler reads. What was done before, by its
        idempotency key, is answered with `repeated_status`.

        `is_routine`: programs send it by themselves, again and again. `errors` are the statuses that this route answers with beside those that every route may. `streams`
        is what each server-sent event holds where the caller may ask for a stream. With `ends_with_client` it stops when the caller is gone; else what was begun is finished. `also_answers` is a media type that may come in the place of the first.
        """
        self.method: Method = method
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
        self.also_answers = also_answers
        self.ends_with_client = ends_with_client
        self.takes_file = takes_file
        self._max_body_bytes = max_body_bytes
        self.has_body = method in ("POST", "PUT")
        self.has_query = takes_file or not self.has_body
        is_harmless = is_routine or scope in (KeyScope.READ, KeyScope.INFER)
        self.is_audited = method != "GET" and not is_harmless
        """Whether it may change something that others or later calls see."""
        read = _from_query if self.has_query else read_body
        self._serve = partial(_read_and_handle, takes, read, handler)

    def max_body_bytes(self, services: Services) -> int:
        most = self._max_body_bytes
        return most if isinstance(most, int) else most(services)

    @property
    def needs_key(self) -> bool:
        return self.scope != "public"

    @property
    def refusals(self) -> frozenset[int]:
        """What whoever may not use it is answered."""
        lacking = {403} if isinstance(self.scope, KeyScope) else set[int]()
        return frozenset({401, 429, *lacking} if self.needs_key else ())

    async def serve(
        self, request: web.Request, services: Services, caller: Caller, lost: asyncio.Event
    ) -> web.StreamResponse:
        """Validate what the request brings and hand it to the handler."""
        return await self._serve(request, services, caller, lost)


async def _from_query(request: web.Request, takes: type[TakesT]) -> TakesT:
    return read_query(request, takes)


async def _read_and_handle(
    takes: type[TakesT],
    read: Callable[[web.Request, type[TakesT]], Awaitable[TakesT]],
    handler: Callable[[Call[TakesT]], Awaitable[web.StreamResponse]],
    request: web.Request,
    services: Services,
    caller: Caller,
    lost: asyncio.Event,
) -> web.StreamResponse:
    given = await read(request, takes)
    return await handler(Call(request, services, caller, given, lost))


def reply(body: BaseModel, status: int = 200) -> web.Response:
    return web.Response(
        body=body.model_dump_json().encode(), status=status, content_type="application/json"
    )
