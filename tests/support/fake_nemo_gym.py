"""A resource server as NeMo Gym's are: sessions by cookie, kept in memory, and nothing said when they are lost."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

from aiohttp import web
from aiohttp.test_utils import TestServer

Fault = Literal["busy", "unavailable", "proxy", "before it runs", "after it ran", "full"]
"""A request is refused with 429, or as uvicorn does at its limit (503, and the connection is closed), answered 503 though it ran, refused with 502, or its connection is cut."""


class FakeNemoGym:
    """The tool `add` counts in a session; `verify` and `step` reward the count that the row expects."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        """By session."""
        self.offset = 0
        """What a session begins with."""
        self.greeting: str | None = "Begin."
        """What `reset` shows."""
        self.faults = deque[Fault | None]()
        """Of the next requests, in their order."""
        self.asked: list[tuple[str, Any]] = []
        """Paths, with their bodies; not those of pings."""
        self.keys: set[str | None] = set()
        """Those that requests came with."""
        self.verdict: dict[str, Any] = {}
        """More of what `verify` answers."""
        self.added: dict[str, str] = {}
        """More of what `add` answers."""
        self.seeded: dict[str, Any] = {}
        """What `seed_session` answers."""
        self.told_by_mcp = deque[dict[str, Any]]()
        """What the next messages of MCP are answered."""
        self.n_pinged = asyncio.Semaphore(0)
        self._n_sessions = 0
        self._transports: set[asyncio.Transport] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        app = web.Application()
        app.router.add_get("/", self._alive)
        app.router.add_post("/{path}", self._posted)
        async with TestServer(app) as server:
            yield str(server.make_url("/"))

    def start_anew(self) -> None:
        """With the same address and the same key for its cookies."""
        self.counts.clear()
        self.cut()

    def cut(self) -> None:
        while self._transports:
            self._transports.pop().abort()

    async def _alive(self, _: web.Request) -> web.Response:
        self.n_pinged.release()
        return web.json_response({"status": "ok"})

    async def _posted(self, request: web.Request) -> web.StreamResponse:
        assert isinstance(request.transport, asyncio.Transport)
        self._transports.add(request.transport)
        path, body = request.match_info["path"], await request.json()
        self.keys.add(request.headers.get("Authorization"))
        fault = self.faults.popleft() if self.faults else None
        if fault in ("busy", "proxy"):
            return web.Response(status=429 if fault == "busy" else 502)
        if fault == "full":
            response = web.Response(status=503)
            response.force_close()
            return response
        if fault == "before it runs":
            request.transport.abort()
            return web.Response()
        self.asked.append((path, body))
        session = request.cookies.get("session") or self._new_session()
        status, answer = self._answer(path, body, session)
        if fault == "after it ran":
            request.transport.abort()
        if fault == "unavailable":
            return web.Response(status=503)
        response = web.json_response(answer, status=status)
        response.set_cookie("session", session)
        return response

    def _new_session(self) -> str:
        self._n_sessions += 1
        return f"session-{self._n_sessions}"

    def _answer(self, path: str, body: dict[str, Any], session: str) -> tuple[int, Any]:
        if path == "seed_session":
            if "expected" not in body:
                return 422, {"detail": [{"loc": ["body", "expected"], "msg": "Field required"}]}
            self.counts[session] = self.offset
            return 200, self.seeded
        if path == "mcp":
            return 200, {"jsonrpc": "2.0", "id": body["id"], **self.told_by_mcp.popleft()}
        if path == "verify":
            is_right = self.counts.get(session, 0) == body["expected"]
            return 200, {**body, "reward": float(is_right), "accuracy": is_right, **self.verdict}
        if path == "reset":
            self.counts[session] = self.offset
            return 200, {"observation": self.greeting, "info": {}}
        if path == "step":
            return 200, self._stepped(body, session)
        if path != "add":
            return 404, {"detail": "Not Found"}
        if not isinstance(body.get("n"), int):
            return 422, {"detail": [{"loc": ["body", "n"], "msg": "Input should be a number"}]}
        self.counts[session] = self.counts.get(session, 0) + body["n"]
        return 200, {"count": self.counts[session], **self.added}

    def _stepped(self, body: dict[str, Any], session: str) -> dict[str, Any]:
        """Calls are made here; the episode is over at the count that the row expects."""
        calls = [item for item in body["response"]["output"] if item["type"] == "function_call"]
        outputs = list[dict[str, str]]()
        for call in calls:
            self.counts[session] += json.loads(call["arguments"])["n"]
            outputs.append({"call_id": call["call_id"], "output": str(self.counts[session])})
        is_over = self.counts[session] == body["expected"]
        return {
            "observation": None if is_over else "Go on.",
            "reward": float(is_over),
            "terminated": is_over,
            "truncated": False,
            "info": {"tool_outputs": outputs, "n_calls": len(calls), "at": "step"},
        }
