"""A server of the HTTP protocol for environments, which fails as it is told.

A counter: each action adds its length; three actions end the episode.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import web
from aiohttp.test_utils import TestServer

Fault = Literal[
    "before it runs", "after it ran", "busy", "proxy", "raised", "raised mutely", "refused"
]
_STATUS = {"busy": 503, "proxy": 502, "raised": 500, "refused": 422}


@dataclass
class FakeEnvServer:
    description: dict[str, Any] = field(
        default_factory=lambda: {
            "protocol": "warren-env/1",
            "name": "counter",
            "splits": {"train": 5, "endless": None},
        }
    )
    begun: dict[str, Any] = field(default_factory=dict[str, Any])
    """More of what an episode begins with."""
    stepped: dict[str, Any] = field(default_factory=dict[str, Any])
    """More of what each step answers."""
    faults: deque[Fault] = field(default_factory=deque[Fault])
    """What goes wrong with the next steps, in their order."""
    breaks_beginnings: bool = False
    """An episode begins, and the connection breaks."""
    offset: int = 0
    """What counts begin with: another one is another game."""
    forgets_turns: bool = False
    """It plays a turn that comes twice, twice."""
    judges_anew: bool = False
    """It judges an episode whenever a score is asked for, and each time otherwise."""
    asked: list[tuple[str, str, Any]] = field(default_factory=list[tuple[str, str, Any]])
    """Method, path and body."""
    keys: set[str | None] = field(default_factory=set[str | None])
    episodes: dict[str, list[dict[str, Any]]] = field(
        default_factory=dict[str, list[dict[str, Any]]]
    )
    counts: dict[str, int] = field(default_factory=dict[str, int])
    n_judged: int = 0
    n_ran: int = 0
    """Actions that had an effect."""
    has_run: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        app = web.Application()
        app.router.add_route("*", "/{any:.*}", self._answer)
        async with TestServer(app) as server:
            yield str(server.make_url("/"))

    def lose_episodes(self) -> None:
        self.episodes.clear()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read() or b"null")
        self.asked.append((request.method, request.path, body))
        self.keys.add(request.headers.get("Authorization"))
        match (request.method, *request.path.strip("/").split("/")):
            case ("GET", ""):
                return web.json_response(self.description)
            case ("PUT", "episodes", key):
                self.episodes.setdefault(key, [])
                self.counts.setdefault(key, self.offset)
                if self.breaks_beginnings:
                    _break(request)
                return _shown(f"task {body['task']}, count {self.offset}", self.begun)
            case ("POST", "episodes", key, "steps") if key in self.episodes:
                return self._fail(request) or self._step(request, key, body)
            case ("POST", "episodes", key, "score") if key in self.episodes:
                self.n_judged += self.judges_anew
                return web.json_response({"reward": {"length": 0.25, "style": 0.5 + self.n_judged}})
            case ("DELETE", "episodes", key):
                self.episodes.pop(key, None)
                return web.json_response({})
            case _:
                return web.json_response({"error": "no such episode"}, status=404)

    def _fail(self, request: web.Request) -> web.Response | None:
        fault = self.faults.popleft() if self.faults else None
        if fault == "after it ran":
            self.faults.appendleft(fault)
            return None
        if fault == "before it runs":
            _break(request)
        if fault == "raised mutely":
            return web.Response(status=500, text="Traceback: /srv/secret.py")
        if fault is not None and fault != "before it runs":
            return web.json_response({"error": f"it {fault}"}, status=_STATUS[fault])
        return None

    def _step(self, request: web.Request, key: str, body: Any) -> web.Response:
        answers = self.episodes[key]
        if body["turn"] == len(answers) + 1 or self.forgets_turns:
            self.n_ran += 1
            self.counts[key] += len(body["action"])
            answers.append({"count": self.counts[key], "done": len(answers) == 2})
        self.has_run.set()
        if self.faults:
            self.faults.popleft()
            _break(request)
        answer = answers[-1 if self.forgets_turns else body["turn"] - 1]
        told = {"reward": 1.0, "done": True} if answer["done"] else {}
        return _shown(f"count {answer['count']}", {**told, **self.stepped})


def _shown(content: str, more: dict[str, Any]) -> web.Response:
    return web.json_response({"messages": [{"role": "user", "content": content}], **more})


def _break(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()
