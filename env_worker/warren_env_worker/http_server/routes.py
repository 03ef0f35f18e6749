"""From paths to answers, and who may ask: everybody for the description, who has the key for the rest."""

import hmac
import re
from typing import TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler
from pydantic import ValidationError

from warren_env_worker.http_server.bodies import Act, Begin
from warren_env_worker.http_server.description import Described
from warren_env_worker.http_server.episodes import Episodes
from warren_env_worker.http_server.errors import Refusal
from warren_schemas.base import Frozen
from warren_schemas.text.explain import explain

MAX_BODY_BYTES = 8 << 20
_KEY = re.compile(r"[\w.-]{1,128}", re.ASCII)

BodyT = TypeVar("BodyT", bound=Frozen)


class Routes:
    def __init__(self, described: Described, episodes: Episodes, *, api_key: str | None) -> None:
        self._described = described
        self._episodes = episodes
        self._api_key = api_key

    def app(self) -> web.Application:
        middlewares = [self._told, self._allowed]
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=middlewares)
        app.router.add_route("GET", "/", self._describe)
        app.router.add_route("PUT", "/episodes/{key}", self._begin)
        app.router.add_route("POST", "/episodes/{key}/steps", self._step)
        app.router.add_route("DELETE", "/episodes/{key}", self._delete)
        return app

    async def _describe(self, _: web.Request) -> web.Response:
        return web.json_response(self._described.told())

    async def _begin(self, request: web.Request) -> web.Response:
        begin = await _body(request, Begin)
        splits = self._described.splits
        n_tasks = splits.get(begin.split)
        if begin.split not in splits or (n_tasks is not None and begin.task >= n_tasks):
            raise Refusal(422, f"there is no task {begin.task} of {begin.split}; GET / has all")
        return web.json_response(await self._episodes.begin(_key(request), begin))

    async def _step(self, request: web.Request) -> web.Response:
        return web.json_response(await self._episodes.act(_key(request), await _body(request, Act)))

    async def _delete(self, request: web.Request) -> web.Response:
        self._episodes.delete(_key(request))
        return web.json_response({})

    @web.middleware
    async def _allowed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._api_key is not None and request.path != "/":
            given = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(errors="replace"), self._api_key.encode()):
                raise Refusal(401, "a key is needed: Authorization: Bearer …")
        return await handler(request)

    @web.middleware
    async def _told(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except Refusal as refused:
            body = {"error": refused.error}
            return web.json_response(body, status=refused.status, headers=refused.headers)
        except web.HTTPException as error:
            return web.json_response({"error": error.reason}, status=error.status)


async def _body(request: web.Request, model: type[BodyT]) -> BodyT:
    try:
        return model.model_validate_json(await request.read())
    except ValidationError as error:
        raise Refusal(422, "; ".join(explain(error, model))) from error


def _key(request: web.Request) -> str:
    key = request.match_info["key"]
    if not _KEY.fullmatch(key):
        raise Refusal(422, "an episode's id has up to 128 letters, digits, dots, dashes and _")
    return key
