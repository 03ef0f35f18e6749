"""Episodes at an OpenEnv server that loses sessions, has room for few, and goes on otherwise."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import WSMsgType, web
from aiohttp.test_utils import TestServer

from warren.environment import ConfigError, Context, NotReplayable, StepResult
from warren.observation import PromptTokens
from warren_env_worker.environments.openenv.environment import OpenEnv
from warren_env_worker.environments.openenv.server import OpenEnvFailed
from warren_schemas.config import ToolFormat

SCHEMA = {"properties": {"said": {"type": "string"}, "metadata": {}}, "required": ["said"]}


class Counter:
    """Counts what was said. The sockets are its sessions."""

    def __init__(self) -> None:
        self.sockets: list[web.WebSocketResponse] = []
        self.begun: list[dict[str, Any]] = []
        self.n_begun_full = 0
        self.offset = 0
        self.head_start = 0.0
        """The reward that `reset` gives."""
        self.is_broken = False
        """Every step raises."""
        self.drops_at: int | None = None
        """Every session is lost at this count."""
        self.left = asyncio.Event()
        self.task = web.Response(status=500)
        """What it answers whoever asks for the description of a task."""

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        app = web.Application()
        app.router.add_get("/schema", self._schema)
        app.router.add_get("/ws", self._session)
        app.router.add_post("/guess/task", self._task)
        async with TestServer(app) as server:
            yield str(server.make_url("/"))

    async def lose(self) -> None:
        while self.sockets:
            await self.sockets.pop().close()

    async def _schema(self, _: web.Request) -> web.Response:
        return web.json_response({"action": SCHEMA, "observation": {}})

    async def _task(self, _: web.Request) -> web.Response:
        return self.task

    async def _session(self, request: web.Request) -> web.WebSocketResponse:
        socket, count = web.WebSocketResponse(), 0
        await socket.prepare(request)
        if self.n_begun_full:
            self.n_begun_full -= 1
            await socket.send_json(error("CAPACITY_REACHED"))
            await socket.close()
            return socket
        self.sockets.append(socket)
        async for message in socket:
            assert message.type is WSMsgType.TEXT
            asked = message.json()
            if asked["type"] == "reset":
                self.begun.append(asked["data"])
            elif self.is_broken or asked["data"] == {"said": "raise"}:
                await socket.send_json(error("EXECUTION_ERROR", "kaput"))
                continue
            elif asked["data"] == {"said": "?"}:
                await socket.send_json(error("VALIDATION_ERROR", "no question marks"))
                continue
            else:
                count += 1
            if count and count == self.drops_at:
                await socket.close()
                break
            data = {
                "observation": {"text": str(count + self.offset)},
                "reward": float(count) if count else self.head_start,
            }
            await socket.send_json(
                {"type": "observation", "data": data | {"done": count == 3, "metadata": {"x": 1}}}
            )
        self.left.set()
        return socket


def error(code: str, message: str = "no") -> dict[str, Any]:
    return {"type": "error", "data": {"message": message, "code": code}}


async def opened(url: str, **config: Any) -> tuple[OpenEnv, str]:
    environment = OpenEnv(url, **config)
    (first,) = await environment.reset(None, Context.derive(1))
    return environment, first.content


def text(result: StepResult) -> str:
    assert not isinstance(result.observation, str | PromptTokens)
    return result.observation[0].content


async def test_a_reward_at_reset_counts_once_with_the_first_action_that_is_made() -> None:
    server = Counter()
    server.head_start = 0.25
    async with server.serving() as url:
        for words, rewards in (("abc", [1.25, 2.0, 3.0]), ("?ab", [None, 1.25, 2.0])):
            environment, _ = await opened(url)
            first = await environment.step(words[0])
            await server.lose()
            rest = [await environment.step(each) for each in words[1:]]
            await environment.close()
            assert [result.reward for result in (first, *rest)] == rewards


async def test_without_an_action_there_is_no_reward() -> None:
    server = Counter()
    server.head_start = 0.25
    async with server.serving() as url:
        environment, _ = await opened(url, action_tool="say")
        cut = await environment.step("I have nothing to say.")
        wrong = await environment.step("<tool_call>{")
        made = await environment.step(
            '<tool_call>{"name": "say", "arguments": {"said": "a"}}</tool_call>'
        )
        await environment.close()
    assert (cut.reward, cut.truncated) == (None, True)
    assert [wrong.reward, made.reward] == [None, 1.25]


async def test_an_episode_from_its_beginning_to_its_end() -> None:
    server = Counter()
    async with server.serving() as url:
        environment, first = await opened(url, reset={"level": 3})
        results = [await environment.step(f"<think>?</think> {words}") for words in "a?bc"]
        await environment.close()
        await server.left.wait()
    assert [first, *map(text, results)] == ["0", "1", "Error: no question marks", "2", "3"]
    assert [(r.reward, r.done) for r in results] == [
        (1.0, False), (None, False), (2.0, False), (3.0, True)
    ]  # fmt: skip
    assert results[-1].metrics == {"steps": 3.0, "invalid_actions": 1.0}
    assert [set(begun) for begun in server.begun] == [{"seed", "level"}]


async def test_a_server_without_room_is_asked_again() -> None:
    server = Counter()
    server.n_begun_full = 2
    async with server.serving() as url:
        environment, first = await opened(url, patience_s=0.01)
        await environment.close()
    assert first == "0"


async def test_a_lost_session_is_begun_anew_with_all_actions() -> None:
    server = Counter()
    async with server.serving() as url:
        environment, _ = await opened(url)
        await environment.step("a")
        await environment.step("?")
        await server.lose()
        assert text(await environment.step("b")) == "2"
        await environment.close()
    assert server.begun[0] == server.begun[1]


@pytest.mark.parametrize(("n_steps", "told"), [(0, "it begins otherwise"), (1, "otherwise")])
async def test_one_that_goes_on_otherwise_is_not_replayable(n_steps: int, told: str) -> None:
    server = Counter()
    async with server.serving() as url:
        environment, _ = await opened(url)
        for _ in range(n_steps):
            await environment.step("a")
        await server.lose()
        server.offset = 7
        with pytest.raises(NotReplayable, match=told):
            await environment.step("b")
        await environment.close()


async def test_an_environment_that_raises_at_a_repeated_action_is_not_replayable() -> None:
    server = Counter()
    async with server.serving() as url:
        environment, _ = await opened(url)
        await environment.step("a")
        await server.lose()
        server.is_broken = True
        with pytest.raises(NotReplayable, match=r"begun anew, it fails at action 1: .* kaput"):
            await environment.step("b")
        await environment.close()


async def test_a_format_of_calls_is_refused_where_words_are_the_action() -> None:
    """That of the run may be for another of its environments."""
    async with Counter().serving() as url:
        environment = OpenEnv(url, tool_format=ToolFormat.XML)
        with pytest.raises(ConfigError, match=r"tool_format has no effect: .* field said; leave"):
            await environment.reset(None, Context.derive(1))
        await environment.close()
        asked, _ = await opened(url, action_tool="say", tool_format=ToolFormat.XML)
        assert asked.calls.form is ToolFormat.XML
        await asked.close()


async def test_a_server_that_loses_every_session_or_raises_is_given_up() -> None:
    server = Counter()
    async with server.serving() as url:
        environment, _ = await opened(url)
        with pytest.raises(OpenEnvFailed, match="failed: kaput"):
            await environment.step("raise")
        server.drops_at = 1
        with pytest.raises(OpenEnvFailed, match="lost the session 3 times"):
            await environment.step("a")
        await environment.close()


@pytest.mark.parametrize(
    ("status", "body", "id"),
    [
        (200, '{"task": {"id": "apple"}}', "apple"),
        (200, '{"task": {}}', None),
        (200, "[]", None),
        (200, "no JSON", None),
        (400, "{}", None),
        (422, "{}", None),
        (500, "", None),
    ],
)
async def test_an_episode_is_played_whatever_the_server_says_of_its_task(
    status: int, body: str, id: str | None
) -> None:
    server = Counter()
    server.task = web.Response(status=status, text=body)
    async with server.serving() as url:
        environment = OpenEnv(url, tasks_of="guess")
        environment.context = Context.derive(1)
        await environment.reset(2, environment.context)
        result = await environment.step("one")
        await environment.close()
    assert (environment.task_id, result.reward) == (id, 1.0)
