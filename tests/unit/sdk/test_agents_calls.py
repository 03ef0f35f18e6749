"""Several calls of tools in one answer: whole and streamed, in each dialect that has tools."""

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import aiohttp
import openai
import pytest

from warren import Agent, AgentEnv
from warren.environment import ChatMessage
from warren.testing import play

Body = dict[str, Any]
Call = tuple[str, str, Body]
"""Id, name, arguments."""
SCHEMA: Body = {"type": "object", "properties": {"a": {"type": "integer"}}}
NAMES = ("add", "take")
SAID = "".join(
    f'<tool_call>\n{{"name": "{name}", "arguments": {{"a": {n}}}}}\n</tool_call>\n'
    for n, name in enumerate(NAMES)
)


class Calls(AgentEnv):
    """Asks with two tools, tells what both gave, and asks on."""

    def __init__(self, *, streams: bool) -> None:
        self.streams = streams
        self.calls: Sequence[Call] = ()

    async def run(self, task: None, agent: Agent) -> float:
        self.calls = await self.called(agent)
        await self.tell(agent)
        return 1.0

    async def called(self, agent: Agent) -> Sequence[Call]:
        raise NotImplementedError

    async def tell(self, agent: Agent) -> None:
        raise NotImplementedError


def client(agent: Agent) -> Any:
    return openai.AsyncOpenAI(base_url=agent.base_url, api_key=agent.api_key)


class Chat(Calls):
    tools: ClassVar[Any] = [
        {"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in NAMES
    ]
    history: tuple[Any, ...] = ({"role": "user", "content": "hi"},)

    async def called(self, agent: Agent) -> Sequence[Call]:
        async with client(agent) as model:
            asked: Any = {"model": "m", "messages": self.history, "tools": self.tools}
            if self.streams:
                async with model.chat.completions.stream(**asked) as stream:
                    answer = await stream.get_final_completion()
            else:
                answer = await model.chat.completions.create(**asked)
        assert answer.choices[0].finish_reason == "tool_calls"
        self.history += (answer.choices[0].message.model_dump(exclude_none=True),)
        calls = answer.choices[0].message.tool_calls
        return [(c.id, c.function.name, json.loads(c.function.arguments)) for c in calls]

    async def tell(self, agent: Agent) -> None:
        results = [{"role": "tool", "tool_call_id": c[0], "content": "7"} for c in self.calls]
        asked: Any = [*self.history, *results]
        async with client(agent) as model:
            await model.chat.completions.create(model="m", messages=asked, tools=self.tools)


class Responses(Calls):
    said: Sequence[Any] = ()
    tools: ClassVar[Any] = [
        {"type": "function", "name": name, "parameters": SCHEMA} for name in NAMES
    ]

    async def called(self, agent: Agent) -> Sequence[Call]:
        async with client(agent) as model:
            asked: Any = {"model": "m", "input": "hi", "tools": self.tools}
            if self.streams:
                async with model.responses.stream(**asked) as stream:
                    answer = await stream.get_final_response()
            else:
                answer = await model.responses.create(**asked)
        self.said = answer.output
        return [(c.call_id, c.name, json.loads(c.arguments)) for c in answer.output]

    async def tell(self, agent: Agent) -> None:
        results = [
            {"type": "function_call_output", "call_id": call[0], "output": "7"}
            for call in self.calls
        ]
        async with client(agent) as model:
            asked: Any = [{"role": "user", "content": "hi"}, *self.said, *results]
            await model.responses.create(model="m", input=asked, tools=self.tools)


class Messages(Calls):
    tools: ClassVar[Any] = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
    history: tuple[Any, ...] = ({"role": "user", "content": "hi"},)

    async def called(self, agent: Agent) -> Sequence[Call]:
        told = await self._posted(agent, stream=self.streams)
        blocks = _blocks(told) if self.streams else json.loads(told)["content"]
        self.history += ({"role": "assistant", "content": blocks},)
        return [(block["id"], block["name"], block["input"]) for block in blocks]

    async def tell(self, agent: Agent) -> None:
        results = [
            {"type": "tool_result", "tool_use_id": call[0], "content": "7"} for call in self.calls
        ]
        self.history += ({"role": "user", "content": results},)
        await self._posted(agent)

    async def _posted(self, agent: Agent, **more: object) -> str:
        body = {"model": "m", "max_tokens": 9, "tools": self.tools, "messages": self.history}
        async with (
            aiohttp.ClientSession(headers={"x-api-key": agent.api_key}) as session,
            session.post(f"{agent.root_url}/v1/messages", json={**body, **more}) as response,
        ):
            assert response.status == 200, await response.text()
            return await response.text()


def _blocks(told: str) -> list[Body]:
    """What a client makes of the events of a stream."""
    blocks: list[Body] = []
    for event in told.split("\n\n"):
        data = json.loads(event.partition("data: ")[2] or "{}")
        if data.get("type") == "content_block_start":
            blocks.append(data["content_block"])
        elif data.get("type") == "content_block_delta":
            blocks[data["index"]]["input"] = json.loads(data["delta"]["partial_json"])
    return blocks


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", [Chat, Responses, Messages])
def test_several_calls_of_one_answer_are_told_and_gone_on_from(
    dialect: type[Calls], streams: bool
) -> None:
    shown: list[Sequence[ChatMessage]] = []

    def policy(messages: Sequence[ChatMessage]) -> str:
        shown.append(messages)
        return SAID if len(shown) == 1 else "done"

    agent = dialect(streams=streams)
    episode = play(agent, policy)
    assert [(name, given) for _, name, given in agent.calls] == [
        ("add", {"a": 0}),
        ("take", {"a": 1}),
    ]
    assert len({call[0] for call in agent.calls}) == 2
    assert [result.after for result in episode.results] == [1, None]
    assert [message.role for message in shown[1]] == ["system", "user", "assistant", "tool", "tool"]
