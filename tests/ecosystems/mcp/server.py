"""A real MCP server of the official SDK, in the Python of .venv-mcp: `server.py stdio`, or `server.py KIND PORT`.

KIND is `stateless` (2026-07-28, nothing is kept), `busy` (the same, with 503 for each second message), `sessions` (the
handshake and `Mcp-Session-Id` of before), `cut` (the same, with 503 for the second call of all, which has run), `busy_lists`
(the same, with 503 or 504 for the first of each two requests for the tools of a session), `endless` (the same, with ever more tools),
`moved` (a redirect) or `keyed` (401 without its key).
"""

import asyncio
import base64
import importlib
import itertools
import json
import os
import sys
import time
from collections import Counter
from functools import partial
from typing import Any

mcpserver: Any = importlib.import_module("mcp.server.mcpserver")
lowlevel: Any = importlib.import_module("mcp.server.lowlevel")
types: Any = importlib.import_module("mcp_types")
responses: Any = importlib.import_module("starlette.responses")
uvicorn: Any = importlib.import_module("uvicorn")

Context: Any = mcpserver.Context
KEY = "Bearer key-0123456789"
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PRICES = {"tea": 3, "coffee": 4}
server: Any = mcpserver.MCPServer("shop", instructions="Prices are in euros.")
counts: dict[str, int] = {}


def of_session(context: Any) -> str:
    headers: dict[str, str] = context.headers or {}
    return headers.get("mcp-session-id", "")


@server.tool()
def price(article: str) -> str:
    """The price of an article."""
    if article not in PRICES:
        raise mcpserver.exceptions.ToolError(f"{article} is not sold here")
    return str(PRICES[article])


@server.tool()
def put(article: str, context: Context) -> str:  # pyright: ignore
    """Put an article into the basket."""
    of = of_session(context)
    counts[of] = counts.get(of, 0) + 1
    return f"{counts[of]} in the basket"


@server.tool()
def pid() -> str:
    return str(os.getpid())


@server.tool()
def variable(name: str) -> str:
    return os.environ.get(name, "(not set)")


@server.tool()
def show(kind: str) -> Any:
    """Content of all kinds."""
    data = base64.b64encode(PNG).decode()
    held = types.BlobResourceContents(uri="file:///b", blob=data, mime_type="application/pdf")
    return {
        "image": types.ImageContent(type="image", data=data, mime_type="image/png"),
        "audio": types.AudioContent(type="audio", data=data, mime_type="audio/wav"),
        "link": types.ResourceLink(type="resource_link", name="a", uri="file:///a"),
        "text": types.EmbeddedResource(
            type="resource", resource=types.TextResourceContents(uri="file:///t", text="told")
        ),
        "blob": types.EmbeddedResource(type="resource", resource=held),
        "long": types.TextContent(type="text", text="x" * 5000),
        "huge": types.TextContent(type="text", text="x" * (4 << 20)),
    }[kind]


@server.tool()
async def wait() -> str:
    await asyncio.Event().wait()
    return ""


@server.tool()
def hang() -> str:
    """Nothing else is answered meanwhile: the interpreter is stopped."""
    os.kill(os.getpid(), 19)
    time.sleep(1)
    return ""


@server.tool()
def die() -> str:
    os._exit(1)


@server.tool()
def teach() -> str:
    """There is one tool more from now on."""
    server.add_tool(lambda: "sung", name="sing", description="Sing a song.")
    return "taught"


def tell_that_tools_may_change() -> None:
    """In sessions as well: the SDK itself does so where there are none."""
    inner = server._lowlevel_server
    options = lowlevel.NotificationOptions(tools_changed=True)
    inner.create_initialization_options = partial(inner.create_initialization_options, options)


class Proxy:
    """Before a server that keeps sessions; `cut`, `busy_lists` and `endless` say what it does."""

    def __init__(self, inner: Any, kind: str) -> None:
        self._inner = inner
        self._is_cut = kind == "cut"
        self._is_endless = kind == "endless"
        self._n_calls = 0
        self._n_lists = Counter[bytes]()
        """By session."""
        self._statuses = itertools.cycle((503,) if self._is_cut else (503, 504))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._inner(scope, receive, send)
        body = await whole_body(receive)
        if not self._refuses(body, dict(scope["headers"]).get(b"mcp-session-id", b"")):
            return await self._inner(scope, heard_again(body, receive), send)
        if self._is_cut:
            await self._inner(scope, heard_again(body, receive), unsent)
        await self._answer(body)(scope, receive, send)

    def _answer(self, body: bytes) -> Any:
        if self._is_endless:
            listed: dict[str, Any] = {"tools": [], "nextCursor": "more"}
            return responses.JSONResponse(
                {"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": listed}
            )
        return responses.Response(None, next(self._statuses))

    def _refuses(self, body: bytes, session: bytes) -> bool:
        is_call, is_list = b'"tools/call"' in body, b'"tools/list"' in body
        self._n_calls += is_call
        self._n_lists[session] += is_list
        if self._is_cut:
            return is_call and self._n_calls == 2
        return is_list and (self._is_endless or self._n_lists[session] % 2 == 1)


async def whole_body(receive: Any) -> bytes:
    body, goes_on = b"", True
    while goes_on:
        message = await receive()
        body += message.get("body", b"")
        goes_on = message.get("more_body", False)
    return body


def heard_again(body: bytes, receive: Any) -> Any:
    """What an application hears of a request whose body was read before."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def heard() -> Any:
        return messages.pop() if messages else await receive()

    return heard


async def unsent(message: object) -> None:
    """To nobody."""


def app_of(kind: str) -> Any:
    inner = server.streamable_http_app(stateless_http=kind in ("stateless", "busy"))
    if kind == "busy_lists":
        tell_that_tools_may_change()
    if kind in ("cut", "busy_lists", "endless"):
        return Proxy(inner, kind)
    n_asked = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal n_asked
        if scope["type"] == "http":
            n_asked += scope["method"] == "POST"
            headers = dict(scope["headers"])
            refused = {
                "moved": responses.Response(None, 307, {"Location": "/mcp/"}),
                "keyed": None
                if headers.get(b"authorization") == KEY.encode()
                else responses.Response(None, 401),
                "busy": responses.Response(None, 503) if n_asked % 2 else None,
            }.get(kind)
            if refused is not None:
                await refused(scope, receive, send)
                return
        await inner(scope, receive, send)

    return app


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        uvicorn.run(app_of(sys.argv[1]), port=int(sys.argv[2]), log_level="warning")
