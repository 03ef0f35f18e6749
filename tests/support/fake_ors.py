"""A server as ORS describes it, which fails as it is told: what it says was recorded from `ors-sdk` 0.1.0.

One environment, `vault`: `look` tells a digit of the code, `open` ends the episode.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from aiohttp.test_utils import TestServer

Fault = Literal[
    "before it runs",
    "before its number",
    "after its number",
    "busy",
    "starting",
    "unavailable",
    "proxy",
    "refused",
]

TOOLS = [
    {"name": "look", "description": "A digit.", "input_schema": {"properties": {"place": {"type": "integer"}}}},
    {"name": "open", "description": "Ends it.", "input_schema": {"properties": {"code": {"type": "string"}}}},
]  # fmt: skip


@dataclass
class FakeOrs:
    n_tasks: int = 5
    ids: dict[int, str] = field(default_factory=dict[int, str])
    """Of tasks that are called otherwise than by their number."""
    tells_specs: bool = True
    refuses_specs: Callable[[], web.Response] | None = None
    """What it answers whoever asks for the description of a task."""
    terminal_tool: dict[str, str] | None = None
    scores_groups: bool = False
    conversation: list[dict[str, Any]] | None = None
    """The prompt with roles, of a server that tells it so."""
    knows_conversations: bool = False
    """It says so of itself, whether it does or not."""
    faults: deque[Fault] = field(default_factory=deque[Fault])
    """What goes wrong with the next calls, in their order."""
    n_cut_openings: int = 0
    """So many times `create` runs, and its connection is cut."""
    n_starting: int = 0
    """So many requests for an environment are refused, as by a proxy whose environment starts: `create` and `delete`."""
    is_forgetful: bool = False
    """A session that it refused so is unknown to it from then on."""
    is_other: bool = False
    """It answers otherwise than before."""
    asked: list[tuple[str, dict[str, str], Any]] = field(
        default_factory=list[tuple[str, dict[str, str], Any]]
    )
    """Path, headers and body of each request."""
    sessions: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """The calls that ran in each."""
    deleted: list[str] = field(default_factory=list[str])
    _tasks: dict[str, int] = field(default_factory=dict[str, int])
    _answers: dict[str, str] = field(default_factory=dict[str, str])
    _n_sessions: int = 0
    _forgotten: set[str] = field(default_factory=set[str])
    slow: asyncio.Event | None = None
    """A call waits for it."""
    slow_opening: asyncio.Event | None = None
    """`create` waits for it, once it ran."""
    has_run: asyncio.Event = field(default_factory=asyncio.Event)
    """Some call has."""
    has_opened: asyncio.Event = field(default_factory=asyncio.Event)
    """Some session has."""
    has_refused: asyncio.Event = field(default_factory=asyncio.Event)
    """To open one, because it is starting."""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", self._answer)
        async with TestServer(app) as server:
            yield str(server.make_url("/"))

    def paths(self) -> list[str]:
        return [path for path, _, _ in self.asked]

    def lose_sessions(self) -> None:
        self.sessions.clear()
        self._answers.clear()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read() or b"null")
        self.asked.append((request.path, dict(request.headers), body))
        match request.path.strip("/").split("/"):
            case ["list_environments"]:
                return web.json_response(["vault"])
            case ["create_session"]:
                self._n_sessions += 1
                return _stream(("task_id", f"session-{self._n_sessions}"), ("end", ""))
            case ["vault", "splits"]:
                return web.json_response([{"name": "train", "type": "train"}])
            case ["vault", "num_tasks"]:
                return web.json_response({"num_tasks": self.n_tasks})
            case ["vault", "task"]:
                if not self.tells_specs:
                    return web.json_response({"detail": "Not Found"}, status=404)
                if self.refuses_specs is not None:
                    return self.refuses_specs()
                number = self.ids.get(body["index"], f"task-{body['index']}")
                return web.json_response({"task": {"id": number}})
            case ["vault", "task_range"]:
                numbers = range(self.n_tasks)[slice(body["start"], body["stop"])]
                ids = [self.ids.get(each, f"task-{each}") for each in numbers]
                return web.json_response({"tasks": [{"id": each} for each in ids]})
            case path:
                return await self._in_session(request, path, body)

    async def _in_session(
        self, request: web.Request, path: list[str], body: Any
    ) -> web.StreamResponse:
        sid = request.headers["X-Session-ID"]
        if self.n_starting and path in (["create"], ["delete"]):
            self.n_starting -= 1
            self._forgotten |= {sid} if self.is_forgetful else set()
            self.has_refused.set()
            return _refused(503, "starting")
        if path == ["create"] and sid not in self._forgotten:
            self.sessions[sid] = []
            self._tasks[sid] = body["index"]
            self.has_opened.set()
            if self.slow_opening is not None:
                await self.slow_opening.wait()
            if self.n_cut_openings:
                self.n_cut_openings -= 1
                return await _cut(request)
            return web.json_response({"sid": sid})
        if path in (["delete"], ["delete_session"]):
            self.deleted += [sid] if self.sessions.pop(sid, None) is not None else []
            return web.json_response({"sid": sid})
        if sid not in self.sessions:
            return web.json_response({"detail": "Active environment not found"}, status=404)
        match path:
            case ["vault", "task_tools"]:
                return web.json_response(self._tools())
            case ["vault", "messages"]:
                missing = web.json_response({"detail": "Not Found"}, status=404)
                return (
                    missing if self.conversation is None else web.json_response(self.conversation)
                )
            case ["vault", "prompt"]:
                return web.json_response([{"type": "text", "text": "Open it.", "detail": None}])
            case ["vault", "call"]:
                return await self._call(request, sid, body)
            case _:
                return web.json_response({"status": "ok"})

    def _tools(self) -> dict[str, Any]:
        told: dict[str, Any] = {"tools": TOOLS, "terminal_tool": self.terminal_tool}
        if self.knows_conversations:
            told |= {"message_block_types": ["text", "image"]}
        return told | ({"supports_score_group": True} if self.scores_groups else {})

    async def _call(self, request: web.Request, sid: str, body: Any) -> web.StreamResponse:
        fault = self.faults.popleft() if self.faults else None
        statuses = {"busy": 429, "starting": 503, "proxy": 502, "refused": 422}
        if fault in statuses:
            return _refused(statuses[fault], "starting" if fault == "starting" else None)
        if fault == "before it runs":
            return await _cut(request)
        number = body.get("task_id")
        if number is None:
            number = f"call-{len(self._answers)}"
            self._answers[number] = self._run(sid, body["name"], body["input"])
        if self.slow is not None:
            await self.slow.wait()
        if fault == "unavailable":  # and yet it has run
            return _refused(503)
        if fault == "before its number":
            return await _cut(request)
        if fault == "after its number":
            return await _cut(request, ("task_id", number))
        if number not in self._answers:
            return _stream(("error", "unknown task_id"))
        answer = self._answers[number]
        pieces = [answer[:10], answer[10:]]
        return _stream(("task_id", number), ("chunk", pieces[0]), ("end", pieces[1]))

    def _run(self, sid: str, tool: str, arguments: dict[str, Any]) -> str:
        done = self.sessions[sid]
        done.append(tool)
        self.has_run.set()
        text = f"{tool} {len(done)} of {self._tasks[sid]}{' other' if self.is_other else ''}"
        reward, is_over = {"look": (0.25, False), "open": (1.0, True)}.get(tool, (0.5, False))
        if arguments.get("place") == 9:
            return json.dumps({"ok": False, "error": "no such place"})
        output = {"blocks": [{"type": "text", "text": text}], "reward": reward, "finished": is_over}
        return json.dumps({"ok": True, "output": output})


def _refused(status: int, state: str | None = None) -> web.Response:
    headers = {} if state is None else {"X-Backend-State": state}
    return web.json_response({"detail": "no"}, status=status, headers=headers)


def _stream(*events: tuple[str, str]) -> web.Response:
    return web.Response(body=_as_bytes(events), content_type="text/event-stream")


def _as_bytes(events: tuple[tuple[str, str], ...]) -> bytes:
    return b"".join(f"event: {name}\r\ndata: {data}\r\n\r\n".encode() for name, data in events)


async def _cut(request: web.Request, *events: tuple[str, str]) -> web.StreamResponse:
    """A connection that breaks off after these events, or before anything."""
    assert request.transport is not None
    if events:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(_as_bytes(events))
        request.transport.close()
        return response
    request.transport.close()
    return web.Response()
