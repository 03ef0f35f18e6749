"""From paths to answers, and who may ask.

Each path of an environment is there twice: below its name, and bare. A bare one is of the environment of the
session, of that in `X-Deployment`, or of the only one that is served.
"""

import hmac
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import ValidationError

from warren.version import __version__
from warren_env_worker.ors_server import bodies
from warren_env_worker.ors_server.blocks import blocks_of, conversation
from warren_env_worker.ors_server.catalogue import Catalogue, as_listed
from warren_env_worker.ors_server.errors import OrsError
from warren_env_worker.ors_server.session import Session
from warren_env_worker.ors_server.sessions import Sessions
from warren_env_worker.ors_server.streams import call_events, new_session_events, stream
from warren_env_worker.ors_server.tools import Toolbox
from warren_schemas.base import Frozen
from warren_schemas.ids import new_id
from warren_schemas.text.explain import explain

MAX_BODY_BYTES = 1 << 20
OPEN_PATHS = ("/health",)
_SESSION = re.compile(r"[\w.-]{1,128}", re.ASCII)

BodyT = TypeVar("BodyT", bound=Frozen)
OfEnvironment = Callable[[web.Request, str], Awaitable[object]]
OfSession = Callable[[web.Request, Session], Awaitable[web.StreamResponse]]


class Routes:
    def __init__(self, catalogue: Catalogue, sessions: Sessions, *, api_key: str | None) -> None:
        self._catalogue = catalogue
        self._sessions = sessions
        self._api_key = api_key

    def app(self) -> web.Application:
        app = web.Application(
            client_max_size=MAX_BODY_BYTES, middlewares=[self._told, self._allowed]
        )
        add = app.router.add_route
        add("GET", "/health", self._health)
        add("GET", "/version", self._version)
        add("GET", "/list_environments", self._environments)
        for path, handler in {
            "create_session": self._create_session,
            "create": self._create,
            "ping": self._ping,
            "delete": self._delete,
            "delete_session": self._delete,
        }.items():
            add("POST", f"/{path}", handler)
        for method, path, of_environment in (
            ("GET", "splits", self._splits),
            ("GET", "tools", self._tools),
            ("POST", "num_tasks", self._num_tasks),
            ("POST", "tasks", self._tasks),
            ("POST", "task", self._task),
            ("POST", "task_range", self._task_range),
        ):
            for way in (f"/{path}", f"/{{environment}}/{path}"):
                add(method, way, self._for_environment(of_environment))
        for method, path, of_session in (
            ("GET", "prompt", self._prompt),
            ("GET", "messages", self._messages),
            ("GET", "task_tools", self._task_tools),
            ("POST", "call", self._call),
        ):
            for way in (f"/{path}", f"/{{environment}}/{path}"):
                add(method, way, self._for_session(of_session))
        return app

    async def _health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": __version__, "build_sha": None})

    async def _environments(self, _: web.Request) -> web.Response:
        return web.json_response(self._catalogue.names_served)

    async def _splits(self, _: web.Request, environment: str) -> object:
        return [as_listed(split) for split in await self._catalogue.splits(environment)]

    async def _tools(self, _: web.Request, environment: str) -> object:
        return Toolbox(await self._catalogue.described(environment)).listed()

    async def _num_tasks(self, request: web.Request, environment: str) -> object:
        asked = await _body(request, bodies.OfSplit)
        return {"num_tasks": await self._catalogue.n_tasks(environment, asked.split)}

    async def _tasks(self, request: web.Request, environment: str) -> object:
        asked = await _body(request, bodies.OfSplit)
        return _listed(environment, await self._catalogue.tasks(environment, asked.split))

    async def _task(self, request: web.Request, environment: str) -> object:
        asked = await _body(request, bodies.OfTask)
        task = await self._catalogue.task(environment, asked.split, asked.index)
        return {"task": task.model_dump(), "env_name": environment}

    async def _task_range(self, request: web.Request, environment: str) -> object:
        asked = await _body(request, bodies.OfRange)
        tasks = await self._catalogue.tasks(environment, asked.split, asked.start, asked.stop)
        return _listed(environment, tasks)

    async def _create_session(self, request: web.Request) -> web.StreamResponse:
        await _body(request, bodies.NewSession)
        number = new_id("session")

        async def events():
            for event in new_session_events(number):
                yield event

        return await stream(request, events())

    async def _create(self, request: web.Request) -> web.Response:
        number, asked = _session(request), await _body(request, bodies.Create)
        named = asked.environment
        environment = self._of_nobody(request) if named is None else self._catalogue.named(named)
        await self._sessions.create(number, asked, environment)
        return web.json_response({"sid": number})

    async def _ping(self, request: web.Request) -> web.Response:
        self._sessions.require(_session(request))
        return web.json_response({"status": "ok"})

    async def _delete(self, request: web.Request) -> web.Response:
        number = _session(request)
        self._sessions.delete(number)
        return web.json_response({"sid": number})

    async def _prompt(self, _: web.Request, session: Session) -> web.StreamResponse:
        return web.json_response(blocks_of(await session.opening()))

    async def _messages(self, _: web.Request, session: Session) -> web.StreamResponse:
        return web.json_response(conversation(await session.opening()))

    async def _task_tools(self, _: web.Request, session: Session) -> web.StreamResponse:
        return web.json_response(session.toolbox.listed())

    async def _call(self, request: web.Request, session: Session) -> web.StreamResponse:
        asked = await _body(request, bodies.CallTool)
        number = asked.task_id or await session.call(asked.name, asked.input)
        return await stream(request, call_events(number, session.running(number)))

    def _for_environment(self, answer: OfEnvironment) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            environment = self._named(request) or self._of_nobody(request)
            if environment is None:
                names = ", ".join(self._catalogue.names_served)
                what = f"this server has several environments: put one before the path ({names})"
                raise OrsError(400, what)
            return web.json_response(await answer(request, environment))

        return handler

    def _for_session(self, answer: OfSession) -> Handler:
        async def handler(request: web.Request) -> web.StreamResponse:
            session = await self._sessions.get(_session(request), self._named(request))
            return await answer(request, session)

        return handler

    def _named(self, request: web.Request) -> str | None:
        """The environment in the path."""
        name = request.match_info.get("environment")
        return None if name is None else self._catalogue.named(name)

    def _of_nobody(self, request: web.Request) -> str | None:
        """The environment where no path or body names one."""
        names = self._catalogue.names
        deployment = request.headers.get("X-Deployment", "").rpartition("/")[2].lower()
        if deployment in names:
            return self._catalogue.named(deployment)
        return self._catalogue.named(names[0]) if len(names) == 1 else None

    @web.middleware
    async def _allowed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._api_key is not None and request.path not in OPEN_PATHS:
            bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
            given = request.headers.get("X-API-Key", bearer)
            if not hmac.compare_digest(given.encode(errors="replace"), self._api_key.encode()):
                raise OrsError(401, "a key is needed: X-API-Key")
        return await handler(request)

    @web.middleware
    async def _told(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except OrsError as error:
            return _refusal(error.status, error.detail, error.headers)
        except web.HTTPException as error:
            return _refusal(error.status, error.reason, {})


async def _body(request: web.Request, model: type[BodyT]) -> BodyT:
    try:
        return model.model_validate_json(await request.read() or b"{}")
    except ValidationError as error:
        raise OrsError(422, "; ".join(explain(error, model))) from error


def _session(request: web.Request) -> str:
    number = request.headers.get("X-Session-ID", "").strip()
    if not _SESSION.fullmatch(number):
        raise OrsError(
            400, "the header X-Session-ID must name a session, as /create_session gives it"
        )
    return number


def _listed(environment: str, tasks: list[bodies.Task]) -> dict[str, object]:
    return {"tasks": [task.model_dump() for task in tasks], "env_name": environment}


def _refusal(status: int, detail: str, headers: Mapping[str, str]) -> web.Response:
    return web.json_response({"detail": detail}, status=status, headers=headers)
