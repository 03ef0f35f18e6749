"""The HTTP server under the app: what it says of requests that are no valid HTTP.

Invariant: nothing of such a request is logged or sent back. aiohttp tells the line that it could not
read, and that line may be an `Authorization` header with a whole key.
"""

import logging

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

MALFORMED = b'{"code":"malformed_request","message":"This is not a valid HTTP request."}'

log = logging.getLogger(__name__)


class Runner(web.AppRunner):
    """Like its base, with our words for what can't be parsed."""

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        server.__class__ = _Server  # the base makes it, with all that it knows of the app
        return server


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _Handler(self, loop=self._loop, **self._kwargs)


class _Handler(RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        log.info("a request from %s is no valid HTTP (%s)", request.remote, type(exc).__name__)
        response = web.Response(status=exc.code, body=MALFORMED, content_type="application/json")
        response.force_close()
        return response
