"""Calls of models besides the policy, passed on as they are.

Invariants: nothing of such a call is recorded or trained on. The episode's key stays here: the other server gets
its own, and never a redirection's.
"""

from collections.abc import Mapping

import aiohttp
import orjson
from aiohttp import web

from warren.agents.dialects.dialect import Body, Refusal
from warren.agents.other_models import OtherModel

CONNECT_S = 10.0
READ_S = 600.0
"""Without a byte. How long an agent may take between two calls of the policy is said by `Limits.step_s` of its class."""
_ASKED = ("Content-Type", "Accept", "Idempotency-Key", "anthropic-version", "anthropic-beta")
_TOLD = ("Content-Type", "Cache-Control", "Retry-After")


class Forwarder:
    """Of one event loop, from its first call until `stop`."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def pass_on(
        self, request: web.Request, path: str, body: Body, other: OtherModel
    ) -> web.StreamResponse:
        """What the other server answers, as it comes. Raises `Refusal` where that can't be had."""
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=READ_S)
            self._session = aiohttp.ClientSession(timeout=timeout)
        asked = body if other.model is None else {**body, "model": other.model}
        url = _url(other.base_url.rstrip("/"), path)
        response: web.StreamResponse | None = None
        try:
            async with self._session.post(
                url,
                data=orjson.dumps(asked),
                headers=_headers(request, other),
                allow_redirects=False,
            ) as answer:
                told = {name: answer.headers[name] for name in _TOLD if name in answer.headers}
                response = web.StreamResponse(status=answer.status, headers=told)
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            if response is None:
                what = f"{body.get('model')} can't be had: {type(error).__name__}"
                raise Refusal(502, what, "other_model_unavailable") from error
            if request.transport is not None:  # what came is no whole answer
                request.transport.abort()
            return response


def _url(base_url: str, path: str) -> str:
    """`path` is of a server's root; some are below its `/v1`."""
    if path.startswith("/v1/"):
        return f"{base_url}/{path.removeprefix('/v1/')}"
    return f"{base_url.removesuffix('/v1')}{path}"


def _headers(request: web.Request, other: OtherModel) -> Mapping[str, str]:
    """The key stands where the client had the episode's."""
    asked = {name: request.headers[name] for name in _ASKED if name in request.headers}
    asked["Accept-Encoding"] = "identity"
    if other.api_key is not None and "x-api-key" in request.headers:
        asked["x-api-key"] = other.api_key
    elif other.api_key is not None:
        asked["Authorization"] = f"Bearer {other.api_key}"
    return asked
