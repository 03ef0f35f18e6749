"""A server that keeps to the protocol of AndroidWorld's docker server, with a phone of its own in place of the emulator.

`python -m tests.support.fake_android_world PORT` listens, and says `ready`. It answers as `server/android_server.py` does:
arguments in the query, each of them required where it is there (422), a suite by seed that begins with 42 and two
combinations, tasks that restore their own apps alone, what a task or the device raises as 500 in plain text, handlers that block all others while they work, all but
`/suite/reinitialize`, and a `/health` that says nothing of the emulator. `POST /_faults` switches faults on, and `GET
/_asked` tells what was asked; the real one has neither.
"""

import asyncio
import random
import sys
from collections.abc import Awaitable, Callable
from typing import Any, TypedDict

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

NAMES = ("Ada", "Emil", "Grace", "Alan", "Kurt", "Sofia", "Rosa", "Otto")
ACTIONS = (
    "click", "double_tap", "scroll", "swipe", "input_text", "navigate_home", "navigate_back",
    "keyboard_enter", "open_app", "status", "wait", "long_press", "answer", "unknown",
)  # fmt: skip
FAMILIES = ("android_world", "information_retrieval")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Faults(TypedDict, total=False):
    dead: bool
    """The emulator: whatever asks it fails."""
    hangs: str
    """A path that is never answered, nor is any other from then on."""
    holds: str
    """A path that is answered once other faults are switched on, and every other until then not either."""
    fails: str
    """A path that is answered with 500."""
    flickers: bool
    """Each screen has a pixel of its own."""


class Phone:
    def __init__(self, width: int, height: int) -> None:
        self.size = (height, width, 3)
        self.app, self.wifi, self.answer = "", True, ""
        self.contacts: list[str] = []
        self.n_shown = 0

    def screen(self) -> NDArray[np.uint8]:
        """A field for each thing that can be seen."""
        pixels = np.zeros(self.size, np.uint8)
        height, width, _ = self.size
        pixels[: height // 4] = (sum(self.app.encode()) % 251, 40, 80)
        pixels[height // 4 : height // 2, : width // 2] = (
            (200, 200, 200) if self.wifi else (9, 9, 9)
        )
        for number, name in enumerate(self.contacts):
            pixels[height // 2 + number, : len(name)] = 255
        return pixels

    def do(self, action: dict[str, Any]) -> None:
        """Raises `ValueError` as the real one does."""
        kind = action.get("action_type")
        if kind not in ACTIONS or action.get("direction", "up") not in (
            "up",
            "down",
            "left",
            "right",
        ):
            raise ValueError("Invalid action type")
        if kind == "answer":
            self.answer = action["text"]
        elif kind == "open_app":
            if action["app_name"] not in ("Contacts", "Settings"):
                raise ValueError("no such app")
            self.app = action["app_name"]
        elif kind == "navigate_home":
            self.app = ""
        elif kind == "input_text" and self.app == "Contacts":
            self.contacts.append(action["text"])
        elif kind == "click" and self.app == "Settings":
            height, width, _ = self.size
            is_switch = height // 4 <= action["y"] < height // 2 and action["x"] < width // 2
            self.wifi ^= is_switch


class Task:
    """Of one type, with what it is about."""

    def __init__(self, kind: str, rng: random.Random) -> None:
        self.kind, self.name, self.is_initialized = kind, rng.choice(NAMES), False

    @property
    def template(self) -> str:
        return {
            "ContactsAddContact": "Create a new contact for {name}.",
            "SystemWifiTurnOff": "Turn wifi off.",
            "SimpleQuestion": "How many letters has {name}?",
            "RetroPlayingQueue": "Add songs to your playing queue.",
            "UnscorableTask": "Do what nobody can judge.",
        }[self.kind]

    @property
    def goal(self) -> str:
        return self.template.format(name=self.name)

    def initialize(self, phone: Phone) -> None:
        phone.answer = ""
        self._restore(phone)
        if self.is_initialized or self.kind == "RetroPlayingQueue":
            raise RuntimeError("no such table: playing_queue")
        self.is_initialized = True

    def score(self, phone: Phone) -> float:
        if not self.is_initialized or self.kind == "UnscorableTask":
            raise RuntimeError("it can't be judged")
        if self.kind == "ContactsAddContact":
            return float(phone.contacts == [self.name])
        return float(
            not phone.wifi
            if self.kind == "SystemWifiTurnOff"
            else phone.answer == str(len(self.name))
        )

    def tear_down(self, phone: Phone) -> None:
        self._restore(phone)
        self.is_initialized = False

    def _restore(self, phone: Phone) -> None:
        """Its own app, as it was at first; others stay as they are."""
        if self.kind == "ContactsAddContact":
            phone.contacts.clear()
        elif self.kind == "SystemWifiTurnOff":
            phone.wifi = True


TYPES = (
    "ContactsAddContact",
    "SystemWifiTurnOff",
    "SimpleQuestion",
    "RetroPlayingQueue",
    "UnscorableTask",
)
Suite = dict[str, list[Task]]


def suite_of(combinations: int, seed: int, family: str) -> Suite:
    types = TYPES if family == "android_world" else ("SimpleQuestion",)
    return {
        kind: [Task(kind, random.Random(f"{kind}{seed}{nth}")) for nth in range(combinations)]
        for kind in types
    }


class FakeAndroidWorld:
    def __init__(self, width: int, height: int) -> None:
        self.phone = Phone(width, height)
        self.suite = suite_of(2, 42, "android_world")
        self.faults: Faults = {}
        self.asked: list[str] = []
        self._at_work = asyncio.Lock()
        self._switched = asyncio.Event()

    def app(self) -> web.Application:
        app = web.Application(middlewares=[self._as_the_real_one])
        app.add_routes(
            [
                web.post("/reset", self.reset),
                web.get("/screenshot", self.screenshot),
                web.post("/execute_action", self.execute_action),
                web.get("/suite/task_list", self.task_list),
                web.get("/suite/task_length", self.task_length),
                web.get("/suite/reinitialize", self.reinitialize),
                web.post("/task/initialize", self.initialize),
                web.post("/task/tear_down", self.tear_down),
                web.get("/task/score", self.score),
                web.get("/task/goal", self.goal),
                web.get("/task/template", self.template),
                web.post("/close", self.close),
                web.get("/health", self.health),
                web.post("/_faults", self.set_faults),
                web.get("/_asked", self.tell_asked),
            ]
        )
        return app

    @web.middleware
    async def _as_the_real_one(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path.startswith("/_"):
            return await handler(request)
        self.asked.append(f"{request.method} {request.path_qs}")
        if request.path == "/suite/reinitialize":
            return await self._answered(request, handler)
        async with self._at_work:
            return await self._answered(request, handler)

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self.faults.get("hangs") == request.path:
            await asyncio.Event().wait()
        if self.faults.get("holds") == request.path:
            await self._switched.wait()
        try:
            if self.faults.get("fails") == request.path:
                raise RuntimeError("it was told to")
            return await handler(request)
        except Missing as missing:
            detail = [{"type": "missing", "loc": ["query", missing.name], "msg": "Field required"}]
            return web.json_response({"detail": detail}, status=422)
        except (KeyError, IndexError, ValueError, RuntimeError):
            return web.Response(text="Internal Server Error", status=500)

    def _device(self) -> Phone:
        if self.faults.get("dead"):
            raise RuntimeError("adb: device offline")
        return self.phone

    def _task(self, request: web.Request) -> Task:
        return self.suite[_query(request, "task_type")][int(_query(request, "task_idx"))]

    async def reset(self, request: web.Request) -> web.Response:
        if _query(request, "go_home") == "true":
            self._device().app = ""
        self.phone.answer = ""
        return _success()

    async def screenshot(self, request: web.Request) -> web.Response:
        _query(request, "wait_to_stabilize")
        pixels = self._device().screen()
        if self.faults.get("flickers"):
            self.phone.n_shown += 1
            pixels[-1, -1, 0] = self.phone.n_shown
        return web.json_response({"pixels": pixels.tolist()})

    async def execute_action(self, request: web.Request) -> web.Response:
        self._device().do(await request.json())
        return _success()

    async def task_list(self, request: web.Request) -> web.Response:
        most, types = int(_query(request, "max_index")), list(self.suite)
        return web.json_response({"task_list": types if most < 0 else types[:most]})

    async def task_length(self, request: web.Request) -> web.Response:
        return web.json_response({"length": len(self.suite[_query(request, "task_type")])})

    async def reinitialize(self, request: web.Request) -> web.Response:
        family = request.query.get("task_family", "android_world")
        if family not in FAMILIES:
            return web.json_response({"detail": f"Invalid task family: {family}"}, status=400)
        combinations = int(request.query.get("n_task_combinations", 2))
        self.suite = suite_of(combinations, int(request.query.get("seed", 42)), family)
        return _success()

    async def initialize(self, request: web.Request) -> web.Response:
        self._task(request).initialize(self._device())
        return _success()

    async def tear_down(self, request: web.Request) -> web.Response:
        self._task(request).tear_down(self._device())
        return _success()

    async def score(self, request: web.Request) -> web.Response:
        return web.json_response({"score": self._task(request).score(self._device())})

    async def goal(self, request: web.Request) -> web.Response:
        return web.json_response({"goal": self._task(request).goal})

    async def template(self, request: web.Request) -> web.Response:
        return web.json_response({"template": self._task(request).template})

    async def close(self, _: web.Request) -> web.Response:
        self.faults["dead"] = True
        return web.json_response({"status": "success"})

    async def health(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "success"})

    async def set_faults(self, request: web.Request) -> web.Response:
        self.faults = await request.json()
        self._switched.set()
        self._switched = asyncio.Event()
        return _success()

    async def tell_asked(self, _: web.Request) -> web.Response:
        return web.json_response(self.asked)


class Missing(Exception):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _query(request: web.Request, name: str) -> str:
    if name not in request.query:
        raise Missing(name)
    return request.query[name]


def _success() -> web.Response:
    return web.json_response({"status": "success", "message": "Done."})


async def serve(port: int, width: int, height: int) -> None:
    runner = web.AppRunner(FakeAndroidWorld(width, height).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print("ready", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:4])))
