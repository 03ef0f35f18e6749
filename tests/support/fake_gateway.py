"""A real aiohttp server that speaks the gateway's contract and does as the test tells it.

It holds runs and their events, cuts connections where asked, answers with planted problems, and can
go away and come back at the same port.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from pydantic import BaseModel
from tests.support.processes import free_port

from warren_schemas.check import RunCheck, RunEstimate
from warren_schemas.config import TrainConfig
from warren_schemas.envelope import Envelope
from warren_schemas.events import (
    EvaluationCompleted,
    Phase,
    RunEvent,
    RunEventBody,
    RunState,
    StateChanged,
    StepCompleted,
)
from warren_schemas.http import (
    Health,
    Problem,
    QueueList,
    QueueView,
    RunList,
    RunResult,
    RunView,
    SubmitRun,
    WorkerList,
    WorkerView,
)
from warren_schemas.ids import new_run_id

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

KEY = "wk_test_0123456789abcdef0123456789abcdef"
CONFIG = TrainConfig.model_validate(
    {
        "name": "guess",
        "model": {"base": "warren/tiny", "update": {"kind": "full"}},
        "environments": [{"name": "guess"}],
        "limits": {"steps": 3},
    }
)
OFFSETS_PER_EVENT = 64
"""Real offsets have gaps."""

COSTS = RunEstimate(
    training_episodes=1234, evaluation_episodes=0, demonstrations=0, sampled_tokens=5678,
    kept_checkpoints=2, checkpoint_bytes=3_000_000, recording_bytes=10**9,
)  # fmt: skip


@dataclass
class StoredRun:
    view: RunView
    events: list[RunEvent] = field(default_factory=list[RunEvent])
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)


@dataclass
class FakeGateway:
    port: int = field(default_factory=free_port)
    script: Sequence[RunEventBody] = ()
    """What happens to every run that is submitted, at once."""
    result: RunResult = field(default_factory=RunResult)
    runs: dict[str, StoredRun] = field(default_factory=dict[str, StoredRun])
    by_key: dict[str, str] = field(default_factory=dict[str, str])
    """Run by idempotency key."""
    problems: list[tuple[int, Problem | None]] = field(
        default_factory=list[tuple[int, Problem | None]]
    )
    """Answers, one for each coming request but health, before it is served as usual."""
    drop_answers: int = 0
    """Serve this many posts and cut the connection in place of an answer."""
    cuts: list[int] = field(default_factory=list[int])
    """The n-th event stream is cut after so many bytes."""
    resumed_after: list[str | None] = field(default_factory=list[str | None])
    """`Last-Event-ID` of every event stream that was opened."""
    opened: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when an event stream is opened."""
    planted: dict[int, str] = field(default_factory=dict[int, str])
    """Data that the n-th event is sent with in place of its own."""
    workers: tuple[WorkerView, ...] = ()
    queues: tuple[QueueView, ...] = ()
    check: RunCheck = field(default_factory=lambda: RunCheck(mistakes=(), notes=(), estimate=COSTS))
    version: str = "0.1.0"
    _runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(middlewares=[self._middleware])
        app.add_routes(
            [
                web.get("/healthz", self._health),
                web.post("/v1/runs", self._submit),
                web.post("/v1/runs/check", self._check),
                web.get("/v1/runs", self._list),
                web.get("/v1/runs/{run}", self._show),
                web.post("/v1/runs/{run}/cancel", self._cancel),
                web.get("/v1/runs/{run}/events", self._events),
                web.get("/v1/workers", self._workers),
                web.get("/v1/queues", self._queues),
            ]
        )
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True).start()

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def emit(self, run: str, *bodies: RunEventBody) -> None:
        """Let these things happen to a run."""
        stored = self.runs[run]
        async with stored.changed:
            for body in bodies:
                self._append(stored, body)
            stored.changed.notify_all()

    def add_run(self, *bodies: RunEventBody, config: TrainConfig = CONFIG) -> str:
        """A run to which these things have happened."""
        run = new_run_id()
        view = RunView(
            id=run,
            name=config.name,
            state=RunState.QUEUED,
            n_steps=config.limits.steps,
            created_s=time.time(),
            config=config,
        )
        self.runs[run] = StoredRun(view)
        for body in bodies:
            self._append(self.runs[run], body)
        return run

    def _append(self, stored: StoredRun, body: RunEventBody) -> None:
        envelope = Envelope(run=stored.view.id)
        stored.events.append(RunEvent(envelope=envelope, at_s=time.time(), body=body))
        change: dict[str, object] = {}
        if isinstance(body, StateChanged):
            change = {"state": body.state, "phase": body.phase, "error": body.reason}
            if body.state is RunState.COMPLETED:
                change["result"] = self.result
        elif isinstance(body, StepCompleted):
            change = {"step": body.step, "reward": body.metrics.get("reward/mean")}
        stored.view = stored.view.model_copy(update=change)

    @web.middleware
    async def _middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path != "/healthz":
            if self.problems:
                status, problem = self.problems.pop(0)
                if problem is None:
                    return web.Response(status=status, text="<html>not a gateway</html>")
                return _json(problem, status)
            if request.headers.get("Authorization") != f"Bearer {KEY}":
                return _problem(401, "invalid_api_key", "The API key is not valid.")
        answer = await handler(request)
        if request.method == "POST" and self.drop_answers:
            self.drop_answers -= 1
            _cut(request)
        return answer

    async def _check(self, request: web.Request) -> web.Response:
        SubmitRun.model_validate_json(await request.read())
        return web.json_response(text=self.check.model_dump_json())

    async def _submit(self, request: web.Request) -> web.Response:
        body = SubmitRun.model_validate_json(await request.read())
        key = body.idempotency_key or new_run_id()
        if key in self.by_key:
            return _json(self.runs[self.by_key[key]].view)
        run = self.by_key[key] = self.add_run(*self.script, config=body.config)
        return _json(self.runs[run].view, 201)

    async def _list(self, _: web.Request) -> web.Response:
        views = [stored.view for stored in reversed(self.runs.values())]
        return _json(RunList(runs=tuple(views)))

    async def _show(self, request: web.Request) -> web.Response:
        stored = self.runs.get(request.match_info["run"])
        return _json(stored.view) if stored else _no_such_run(request)

    async def _cancel(self, request: web.Request) -> web.Response:
        stored = self.runs.get(request.match_info["run"])
        if stored is None:
            return _no_such_run(request)
        if stored.view.state.is_final:
            return _problem(409, "run_has_ended", "It has ended already.")
        await self.emit(stored.view.id, StateChanged(state=RunState.CANCELLED, reason="asked"))
        return _json(stored.view)

    async def _events(self, request: web.Request) -> web.StreamResponse:
        stored = self.runs.get(request.match_info["run"])
        if stored is None:
            return _no_such_run(request)
        last = request.headers.get("Last-Event-ID")
        self.resumed_after.append(last)
        self.opened.set()
        budget = self.cuts.pop(0) if self.cuts else None
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": hello\r\n\r\n")
        start = 0 if last is None else int(last) // OFFSETS_PER_EVENT + 1
        async for index, event in _tail(stored, start):
            data = self.planted.get(index) or event.model_dump_json()
            frame = _frame(index * OFFSETS_PER_EVENT, event.body.kind, data)
            if budget is not None and len(frame) > budget:
                await response.write(frame[:budget])
                _cut(request)
                return response
            budget = None if budget is None else budget - len(frame)
            await response.write(frame)
        return response

    async def _health(self, _: web.Request) -> web.Response:
        return _json(Health(status="ok", version=self.version, broker="in-process", store="SQLite"))

    async def _workers(self, _: web.Request) -> web.Response:
        return _json(WorkerList(workers=self.workers))

    async def _queues(self, _: web.Request) -> web.Response:
        return _json(QueueList(queues=self.queues))


@asynccontextmanager
async def fake_gateway(gateway: FakeGateway | None = None) -> AsyncGenerator[FakeGateway]:
    gateway = gateway or FakeGateway()
    await gateway.start()
    try:
        yield gateway
    finally:
        await gateway.stop()


def step(number: int, n_steps: int = 3, **metrics: float) -> StepCompleted:
    return StepCompleted(
        phase=Phase.TRAINING,
        step=number,
        n_steps=n_steps,
        version=number + 40,
        updates=number,
        n_episodes=64 * number,
        metrics={"reward/mean": number / n_steps, **metrics},
    )


def evaluation(reward: float) -> EvaluationCompleted:
    return EvaluationCompleted(
        when="before", step=0, version=0, n_episodes=512, reward_mean=reward, metrics={}
    )


RUNNING = StateChanged(state=RunState.RUNNING, phase=Phase.TRAINING)
COMPLETED = StateChanged(state=RunState.COMPLETED)


async def _tail(stored: StoredRun, start: int) -> AsyncGenerator[tuple[int, RunEvent]]:
    """Events from an index on, as they come, until the run has ended."""
    index = start
    while True:
        while index < len(stored.events):
            yield index, stored.events[index]
            index += 1
        if stored.view.state.is_final:
            return
        async with stored.changed:
            if index == len(stored.events):
                await stored.changed.wait()


def _frame(offset: int, kind: str, data: str) -> bytes:
    return f"id: {offset}\r\nevent: {kind}\r\ndata: {data}\r\n\r\n".encode()


def _json(body: BaseModel, status: int = 200) -> web.Response:
    return web.Response(text=body.model_dump_json(), status=status, content_type="application/json")


def _problem(status: int, code: str, message: str) -> web.Response:
    return _json(Problem(code=code, message=message), status)


def _no_such_run(request: web.Request) -> web.Response:
    return _problem(404, "no_such_run", f"There is no run {request.match_info['run']}.")


def _cut(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()
