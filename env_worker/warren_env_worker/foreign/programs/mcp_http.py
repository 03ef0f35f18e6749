"""Requests to one MCP server: at the addresses that were checked, without redirects, and no longer answers than there is room for.

Whoever makes an `Addressed` has checked the addresses (`warren_env_worker.permissions.addresses`); the name is the one that
certificates are held against.
"""

import importlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

httpx: Any = importlib.import_module("httpx2")

MAX_ANSWER_BYTES = 16 << 20


class Bounded(httpx.AsyncByteStream):
    """An answer that is no longer than there is room for."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        n_bytes = 0
        async for part in self._stream:
            n_bytes += len(part)
            if n_bytes > MAX_ANSWER_BYTES:
                raise httpx.ReadError("the answer is too long")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


class Addressed(httpx.AsyncBaseTransport):
    """Requests to one server, at these addresses."""

    def __init__(self, addresses: list[str]) -> None:
        certificates = ssl.create_default_context()  # those that the rest of the worker trusts
        self._inner = httpx.AsyncHTTPTransport(verify=certificates, trust_env=False)
        self._addresses = addresses
        self.status: int | None = None
        """What the last message was answered with."""
        self.has_session = False

    async def handle_async_request(self, request: Any) -> Any:
        is_message = request.method == "POST"
        self.status = None if is_message else self.status
        response = await self._sent(request)
        self.status = response.status_code if is_message else self.status
        self.has_session = self.has_session or "mcp-session-id" in response.headers
        if response.has_redirect_location:
            await response.aclose()
            return httpx.Response(403)
        response.stream = Bounded(response.stream)
        return response

    async def _sent(self, request: Any) -> Any:
        failed: Exception = httpx.ConnectError("it has no address")
        for address in self._addresses:
            there = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": request.url.host},
            )
            try:
                return await self._inner.handle_async_request(there)
            except httpx.ConnectError as error:
                failed = error
        raise failed

    async def aclose(self) -> None:
        await self._inner.aclose()
