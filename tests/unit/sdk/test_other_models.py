"""Models besides the policy: calls of them are passed on and are no turns."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from warren import Agent, AgentEnv, OtherModel
from warren.environment import ConfigError
from warren.testing import play

CHUNKS = [b'data: {"choices": []}\n\n', b"data: [DONE]\n\n"]


class Judge:
    """A server with a model of its own, which says what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], dict[str, Any]]] = []

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[str]:
        app = web.Application()
        app.router.add_route("POST", "/at/v1/{path:.*}", self._answer)
        async with TestServer(app) as server:
            yield str(server.make_url("/at/v1/"))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.asked.append((request.path, dict(request.headers), body))
        if body.get("stream"):
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for chunk in CHUNKS if body["messages"] else CHUNKS[:1]:
                await response.write(chunk)
            if not body["messages"] and request.transport is not None:
                request.transport.abort()
            return response
        if request.path.endswith("/messages"):
            said = {"type": "text", "text": "fine"}
            return web.json_response({"id": "m", "type": "message", "content": [said]})
        if body["messages"][0]["content"] == "too much":
            return web.json_response({"error": "busy"}, status=429, headers={"Retry-After": "7"})
        choice = {"index": 0, "message": {"role": "assistant", "content": "fine"}}
        return web.json_response({"id": "c", "choices": [choice]})


class Judged(AgentEnv):
    """Asks the policy once, and has it judged in every way."""

    def __init__(self, told: list[Any]) -> None:
        self.told = told
        self.judge = Judge()

    def other_models(self) -> Mapping[str, OtherModel]:
        return self.others

    async def reset(self, task: None, ctx: Any) -> Any:
        self.server = self.judge.serving()
        url = await self.server.__aenter__()
        nobody = OtherModel("http://127.0.0.1:1/v1")
        self.others = {"judge": OtherModel(url, "key of the judge", "theirs"), "nobody": nobody}
        return await super().reset(task, ctx)

    async def close(self) -> None:
        await super().close()
        await self.server.__aexit__(None, None, None)

    async def run(self, task: None, agent: Agent) -> float:
        headers = {"Authorization": f"Bearer {agent.api_key}"}
        async with (
            openai.AsyncOpenAI(base_url=agent.base_url, api_key=agent.api_key) as client,
            aiohttp.ClientSession(headers=headers) as session,
        ):
            said = await self.chat(client, "policy", "hi")
            self.told.append(await self.chat(client, "judge", said))
            keys = {"x-api-key": agent.api_key, "anthropic-version": "2023-06-01"}
            body = {
                "model": "judge",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": said}],
            }
            async with (
                aiohttp.ClientSession(headers=keys) as other,
                other.post(f"{agent.root_url}/v1/messages", json=body) as answer,
            ):
                self.told.append((await answer.json())["content"][0]["text"])
            self.told.append([model.id async for model in client.models.list()])
            for model, content in (("judge", "too much"), ("nobody", "hi")):
                self.told.append(await self.posted(session, agent, model, content=content))
            self.told.append(await self.posted(session, agent, "judge", content="x", stream=True))
            with pytest.raises(aiohttp.ClientPayloadError):
                await self.posted(session, agent, "judge", stream=True)
        return 1.0

    async def chat(self, client: openai.AsyncOpenAI, model: str, content: str) -> str:
        asked: Any = [{"role": "user", "content": content}]
        answer = await client.chat.completions.create(model=model, messages=asked)
        return answer.choices[0].message.content or ""

    async def posted(
        self,
        session: aiohttp.ClientSession,
        agent: Agent,
        model: str,
        content: str | None = None,
        **more: object,
    ) -> tuple[int, str | None, bytes]:
        messages = [] if content is None else [{"role": "user", "content": content}]
        body = {"model": model, "messages": messages, **more}
        async with session.post(f"{agent.base_url}/chat/completions", json=body) as answer:
            return answer.status, answer.headers.get("Retry-After"), await answer.read()


def test_calls_of_other_models_are_passed_on_and_are_no_turns() -> None:
    told: list[Any] = []
    environment = Judged(told)
    episode = play(environment, lambda _: "well")
    assert [m.content for m in episode.messages] == ["hi", "well"]
    assert episode.reward == 1.0
    chat, message, models, busy, nobody, streamed = told
    assert (chat, message, models) == ("fine", "fine", ["policy", "judge", "nobody"])
    assert busy == (429, "7", b'{"error": "busy"}')
    assert nobody[0] == 502
    assert b"nobody can't be had: ClientConnectorError" in nobody[2]
    assert streamed == (200, None, b"".join(CHUNKS))
    by_chat, by_messages = environment.judge.asked[:2]
    assert by_chat[0] == "/at/v1/chat/completions"
    assert by_chat[1]["Authorization"] == "Bearer key of the judge"
    assert by_chat[2]["model"] == "theirs"
    assert by_messages[0] == "/at/v1/messages"
    assert by_messages[1]["x-api-key"] == "key of the judge"
    assert by_messages[1]["anthropic-version"]
    assert "wep_" not in str(environment.judge.asked)


def test_the_policy_s_own_name_is_no_other_model_s() -> None:
    class Confused(Judged):
        def other_models(self) -> Mapping[str, OtherModel]:
            return {"policy": OtherModel("http://127.0.0.1:1/")}

    with pytest.raises(ConfigError, match="names policy, which is the policy that is trained"):
        play(Confused([]), lambda _: "well")
