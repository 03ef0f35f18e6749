"""A real MCP server of the official SDK, in the Python of .venv-mcp: `server.py stdio`, or `server.py KIND PORT`.

KIND is `stateless` (2026-07-28, nothing is kept), `busy` (the same, with 503 for each second message), `sessions` (the
handshake and `Mcp-Session-Id` of before), `cut` (the same, with 503 for the second call of all, which has run), `moved` (a
redirect) or `keyed` (401 without its key).
"""

import asyncio
import base64
import importlib
import os
import sys
import time
from typing import Any

mcpserver: Any = importlib.import_module("mcp.server.mcpserver")
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


def cut_app(inner: Any) -> Any:
    """A proxy that lost the server while this answered."""
    n_calls = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal n_calls
        if scope["type"] != "http":
            return await inner(scope, receive, send)
        asked: list[Any] = []

        async def heard() -> Any:
            asked.append(await receive())
            return asked[-1]

        sent: list[Any] = []

        async def held(message: Any) -> None:
            sent.append(message)

        if scope["method"] != "POST":
            return await inner(scope, receive, send)
        await inner(scope, heard, held)
        is_call = b'"tools/call"' in b"".join(part.get("body", b"") for part in asked)
        n_calls += is_call
        if is_call and n_calls == 2:
            return await responses.Response(None, 503)(scope, receive, send)
        for message in sent:
            await send(message)

    return app


def app_of(kind: str) -> Any:
    inner = server.streamable_http_app(stateless_http=kind in ("stateless", "busy"))
    if kind == "cut":
        return cut_app(inner)
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
