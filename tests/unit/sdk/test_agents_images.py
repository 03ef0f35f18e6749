"""Agents show the policy images in each dialect that has them, also as what a tool gave."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import aiohttp
import pytest

from warren import Agent, AgentEnv
from warren.environment import ChatMessage, Image
from warren.testing import play

PICTURE = Image.of(b"\x89PNG\r\n\x1a\n of a cat")
URL = f"data:{PICTURE.media_type};base64,{PICTURE.base64}"
TEXT = "what is it?"
Body = dict[str, Any]


def chat(url: str) -> Body:
    shown = [{"type": "text", "text": TEXT}, {"type": "image_url", "image_url": {"url": url}}]
    return {"model": "m", "messages": [{"role": "user", "content": shown}]}


def responses(url: str) -> Body:
    shown = [
        {"type": "input_text", "text": TEXT},
        {"type": "input_image", "image_url": url, "detail": "auto"},
    ]
    return {"model": "m", "input": [{"role": "user", "content": shown}]}


def messages(url: str) -> Body:
    kind, _, data = url.partition(";base64,")
    source = {"type": "base64", "media_type": kind.removeprefix("data:"), "data": data}
    shown = [{"type": "text", "text": TEXT}, {"type": "image", "source": source}]
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": shown}]}


def result(url: str) -> Body:
    """Of a tool that the agent called by itself."""
    call: Body = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    given = {**messages(url)["messages"][0]["content"][1]}
    told = {"type": "tool_result", "tool_use_id": "c", "content": [given]}
    asked: list[Body] = [
        {"role": "user", "content": TEXT},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [told]},
    ]
    return {"model": "m", "max_tokens": 9, "messages": asked}


DIALECTS: Mapping[str, tuple[str, Callable[[str], Body]]] = {
    "chat": ("/v1/chat/completions", chat),
    "responses": ("/v1/responses", responses),
    "messages": ("/v1/messages", messages),
    "a tool's result in messages": ("/v1/messages", result),
}
in_each_dialect = pytest.mark.parametrize("dialect", DIALECTS)


class Shows(AgentEnv):
    def __init__(self, dialect: str, *urls: str) -> None:
        self.path, self.body = DIALECTS[dialect]
        self.urls = urls
        self.told: list[tuple[int, str]] = []

    async def run(self, task: None, agent: Agent) -> float:
        headers = {"Authorization": f"Bearer {agent.api_key}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            for url in self.urls:
                body, address = self.body(url), f"{agent.root_url}{self.path}"
                async with session.post(address, json=body) as answer:
                    self.told.append((answer.status, await answer.text()))
        return 1.0


@in_each_dialect
def test_the_policy_is_shown_the_image(dialect: str) -> None:
    seen: list[Sequence[Image]] = []

    def policy(shown: Sequence[ChatMessage]) -> str:
        assert any(message.content == TEXT for message in shown)
        seen.append(shown[-1].images)
        return "a cat"

    agent = Shows(dialect, URL)
    play(agent, policy)
    assert seen == [(PICTURE,)]
    assert agent.told[0][0] == 200


@in_each_dialect
@pytest.mark.parametrize("url", ["https://example.org/cat.png", "data:image/gif;base64,R0lG"])
def test_an_image_that_can_t_be_shown_is_refused(dialect: str, url: str) -> None:
    agent = Shows(dialect, url, URL)
    play(agent, lambda _: "a cat")
    refused, (status, _) = agent.told
    assert (refused[0], status) == (400, 200)
    assert any(word in refused[1] for word in ("image", "media_type")), refused[1]
