"""An episode's connections to MCP servers, by the official client, in the Python where that is installed.

Invariants: an HTTP server is reached at the addresses that were checked and nowhere else, and no redirect is followed;
a server that could not be had is told of in fixed words. Where a session or a server's process is lost, this process
ends with it: whoever asks plays the episode anew. A server that keeps neither is connected to again. A call that may have run
is not made again in its session.
"""

import asyncio
import importlib
import json
import logging
import os
import shutil
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

mcp: Any = importlib.import_module("mcp")
httpx: Any = importlib.import_module("httpx2")
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
http: Any = importlib.import_module("mcp_http")
streamable: Any = importlib.import_module("mcp.client.streamable_http")

CONNECT_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 5.0
LEAVE_S = 2.0
MAX_RESULT_BYTES = 3 << 20
"""Of one call: it is told in one line."""
MAX_PAGES = 100
MAX_LOSSES = 3
"""In one call."""
MAX_STARTS = 3
"""Of a program."""
TOO_MANY, UNAVAILABLE, NOT_THERE, NO_SESSION = 429, 503, (502, 504), 404
CLOSED, TIMED_OUT, INVALID, INTERNAL, UNREADABLE = -32000, -32001, -32600, -32603, -32700
NOT_OF_TOOLS = (CLOSED, TIMED_OUT, INVALID, INTERNAL, UNREADABLE)
"""Codes by which the client says that an answer is none: the policy is not to blame."""
ENDS_WITH_US = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Becomes the program in its arguments, which is killed when this process dies: one that hangs hears of no end."""

logging.disable(logging.CRITICAL)  # the client would log what listens at an address


class McpFailed(Exception):
    """Whoever asks is told these words."""


class Busy(Exception):
    """The server says that it can't answer now."""


class Lost(Exception):
    """The connection, with what hung on it."""


class Server:
    def __init__(self, name: str, told: dict[str, Any], call_s: float, patience_s: float) -> None:
        """`told`: `url`, `addresses`, `headers` and `sessions`, or `command` and `variables`."""
        self._name = name
        self._told = told
        self._call_s = call_s
        self._patience_s = patience_s
        self._transport: Any = None
        self._client: Any = None
        self._left = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None
        self._n_starts = 0

    async def opened(self) -> dict[str, Any]:
        await self._open()
        offered = self._client.server_capabilities.tools
        return {
            "tools": await self.tools(),
            "may_change": bool(offered and offered.list_changed),
            "instructions": self._client.instructions,
        }

    async def tools(self) -> list[dict[str, Any]]:
        try:
            return await self._unless_lost(self._all_pages)
        except mcp.MCPError:
            raise self._failed() from None

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            result = await self._unless_lost(lambda: self._called(name, arguments))
        except mcp.MCPError as error:
            return {"refused": error.message}
        if result is not None:
            return result
        await self.tools()  # else it is the server that hangs
        return {"is_late": True}

    async def leave(self) -> None:
        self._left.set()
        if self._holding is not None:
            await asyncio.wait({self._holding}, timeout=LEAVE_S)

    async def _open(self) -> None:
        await self._patiently(self._open_once)

    async def _open_once(self) -> None:
        await self.leave()
        self._left = asyncio.Event()
        ready: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._holding = asyncio.create_task(self._hold(ready))
        self._n_starts += 1
        try:
            self._client = await ready
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - whatever the client makes of it
            raise (Busy() if self._may_pass() else self._failed()) from None
        self._n_starts = 0

    def _may_pass(self) -> bool:
        """A program may have been killed as it started, so it is started again a few times."""
        if self._transport is not None:
            return self._status in (None, TOO_MANY, UNAVAILABLE, *NOT_THERE)
        return self._n_starts < MAX_STARTS

    async def _hold(self, ready: "asyncio.Future[Any]") -> None:
        """One task, as the client wants to be entered and left by."""
        try:
            async with AsyncExitStack() as stack:
                ready.set_result(await stack.enter_async_context(await self._made(stack)))
                await self._left.wait()
        except Exception as error:  # noqa: BLE001 - whoever calls then is told that it is closed
            if not ready.done():
                ready.set_exception(error)
        finally:
            ready.cancel()  # where the client was cancelled instead

    async def _made(self, stack: AsyncExitStack) -> Any:
        if "command" in self._told:
            where = mcp.StdioServerParameters(
                command=sys.executable,
                args=["-I", "-S", "-c", ENDS_WITH_US, *self._told["command"]],
                env=self._told["variables"],
            )
            return mcp.Client(where, read_timeout_seconds=self._patience_s)
        self._transport = http.Addressed(self._told["addresses"])
        client = httpx.AsyncClient(
            transport=self._transport,
            headers={"Accept-Encoding": "identity", **self._told["headers"]},
            timeout=httpx.Timeout(CONNECT_S, read=None),  # calls have times of their own
            trust_env=False,
        )
        await stack.enter_async_context(client)
        where = streamable.streamable_http_client(
            self._told["url"], http_client=client, max_sse_event_size=http.MAX_ANSWER_BYTES
        )
        mode = "legacy" if self._told["sessions"] else "auto"
        return mcp.Client(where, mode=mode, read_timeout_seconds=self._patience_s)

    async def _unless_lost(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        for _ in range(MAX_LOSSES):
            try:
                return await self._patiently(lambda: self._judged(ask))
            except Lost:
                if self._transport is None or self._transport.has_session:
                    os._exit(1)
                await self._open()
        raise self._failed()

    async def _patiently(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        loop = asyncio.get_running_loop()
        due_s, pause_s = loop.time() + self._patience_s, FIRST_PAUSE_S
        while True:
            try:
                return await ask()
            except Busy:
                if loop.time() + pause_s > due_s:
                    raise self._failed() from None
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _judged(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Raises `Busy`, `Lost`, `McpFailed`, and `MCPError` where the server refuses the call."""
        try:
            return await ask()
        except (Lost, McpFailed):
            raise
        except Exception as error:  # noqa: BLE001 - whatever the client makes of an answer
            raise self._meaning(error) from None

    def _meaning(self, error: Exception) -> Exception:
        code: int = getattr(error, "code", INTERNAL)
        if self._status in (TOO_MANY, UNAVAILABLE) or self._is_away:
            return Busy()
        assert self._holding is not None  # `_open` comes first
        is_gone = self._status == NO_SESSION and self._has_session and code in NOT_OF_TOOLS
        is_cut = code == CLOSED or self._status in NOT_THERE
        if self._holding.done() or is_cut or is_gone:
            return Lost()
        return self._failed() if code in NOT_OF_TOOLS else error

    async def _all_pages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await self._client.list_tools(cursor=cursor, cache_mode="refresh")
            found += [
                {"name": t.name, "description": t.description, "input_schema": t.input_schema}
                for t in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None:
                return found
        raise McpFailed(f"{self._name}: its list of tools has more than {MAX_PAGES} pages")

    async def _called(self, name: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """None where it takes too long."""
        try:
            result = await self._client.call_tool(
                name, arguments, read_timeout_seconds=self._call_s
            )
        except Exception as error:
            if getattr(error, "code", None) == TIMED_OUT:
                return None
            if self._has_session and self._status in (UNAVAILABLE, *NOT_THERE):
                raise Lost from None  # a proxy answers so for a call that ran, too
            raise
        return within_size(
            {
                "content": [plain(block) for block in result.content],
                "structured": result.structured_content,
                "is_error": result.is_error,
            }
        )

    @property
    def _status(self) -> int | None:
        return None if self._transport is None else self._transport.status

    @property
    def _has_session(self) -> bool:
        return self._transport is not None and self._transport.has_session

    @property
    def _is_away(self) -> bool:
        """A proxy can't reach the server, which may have kept the session."""
        return self._has_session and self._status in NOT_THERE

    def _failed(self) -> McpFailed:
        return McpFailed(f"{self._name}: it can't be reached, or it failed")


def plain(block: Any) -> dict[str, Any]:
    return block.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"meta", "annotations"}
    )


def within_size(result: dict[str, Any]) -> dict[str, Any]:
    n_bytes = len(json.dumps(result, ensure_ascii=False).encode(errors="replace"))
    return result if n_bytes <= MAX_RESULT_BYTES else {"too_large_bytes": n_bytes}


class Episode:
    def make(self, servers: dict[str, dict[str, Any]], call_s: float, patience_s: float) -> None:
        for name, told in servers.items():
            if "command" in told and shutil.which(told["command"][0]) is None:
                raise FileNotFoundError(f"servers.{name}.command: there is no such program")
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._servers = {
            name: Server(name, told, call_s, patience_s) for name, told in servers.items()
        }

    def begin(self) -> dict[str, Any]:
        async def opened() -> dict[str, Any]:
            return {name: await server.opened() for name, server in self._servers.items()}

        return self._wait(opened())

    def step(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A call of a tool; or `tools_of`, the names of servers; or `leave`."""
        if "leave" in asked:
            return self._wait(self._leave())
        if "tools_of" in asked:
            return self._wait(self._tools(asked["tools_of"]))
        server = self._servers[asked["server"]]
        return self._wait(server.call(asked["tool"], asked["arguments"]))

    async def _tools(self, names: list[str]) -> dict[str, Any]:
        return {name: await self._servers[name].tools() for name in names}

    async def _leave(self) -> dict[str, Any]:
        await asyncio.gather(*(server.leave() for server in self._servers.values()))
        return {}

    def _wait(self, answer: Any) -> dict[str, Any]:
        """The loop runs in a thread of its own: servers ask for signs of life while the policy thinks."""
        return asyncio.run_coroutine_threadsafe(answer, self._loop).result()
