"""Conversations that an environment has with the policy by itself, and agents in each dialect.

A script says what is shown, and behind which action. Words are those of `warren/tiny`: characters, raw.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from warren import Agent, AgentEnv, Env, StepResult
from warren.environment import ChatMessage, Context
from warren_schemas.chat.tool_formats import Tool
from warren_schemas.chat.tools_in_chat import Called, as_words, with_tools

Body = dict[str, Any]

PAD, EOS, BOS = range(3)
CHARACTERS = "0123456789abcdefghijklmnopqrstuvwxyz+-*=<>?.,:|#_XO \n"
"""Of `warren/tiny`, behind those three; any other one is `PAD`."""
SCHEMA: Body = {"type": "object", "properties": {"a": {"type": "integer"}}}
ADD = Tool("add", "adds", SCHEMA)
CALLED = Called("add", '{"a": 1}')
FORCED = (as_words("so:", [CALLED]), "7")
"""What is said in demonstrations: a call at first."""
SYSTEM = ChatMessage(role="system", content="guess:")
CALL = ChatMessage(role="assistant", content=as_words("", [CALLED]), is_quoted=True)
QUOTED = ChatMessage(role="assistant", content="9", is_quoted=True)


def user(words: str) -> ChatMessage:
    return ChatMessage(role="user", content=words)


def result(words: str) -> ChatMessage:
    return ChatMessage(role="tool", content=words)


@dataclass(frozen=True)
class Shown:
    after: int
    """The action, counted from 1; 0 is a new beginning."""
    messages: tuple[ChatMessage, ...]


@dataclass(frozen=True)
class Script:
    shown: tuple[Shown, ...]
    tools: tuple[Tool, ...] = ()


OPENING = Shown(0, (SYSTEM, user("?")))
SCRIPTS: Mapping[str, Script] = {
    "straight": Script((OPENING, Shown(1, (user(">"),)), Shown(2, (user("<"),)))),
    "rewritten": Script((
        OPENING,
        Shown(1, (user(">"),)),
        Shown(1, (user("<"),)),
        Shown(0, (SYSTEM, user("again?"), QUOTED, user(">"))),
        Shown(2, (user("<"),)),
    )),
    "tools": Script((OPENING, Shown(1, (result("7"),)), Shown(2, (user("<"),))), (ADD,)),
    "tools, rewritten": Script(
        (
            OPENING,
            Shown(1, (result("7"),)),
            Shown(1, (result("8"), user("<"))),
            Shown(0, (SYSTEM, user("?"), CALL, result("7"))),
        ),
        (ADD,),
    ),
}  # fmt: skip


class Native(Env):
    """Shows what the script says."""

    name = "native"

    def __init__(self, script: str = "rewritten") -> None:
        self.script = SCRIPTS[script]
        self.n_said = 0

    def reset(self, task: None, ctx: Context) -> list[ChatMessage]:
        return self.messages(self.script.shown[0])

    def step(self, action: str) -> StepResult:
        self.n_said += 1
        if self.n_said == len(self.script.shown):
            return StepResult(reward=1.0, done=True)
        shown = self.script.shown[self.n_said]
        return StepResult(self.messages(shown), after=shown.after)

    def messages(self, shown: Shown) -> list[ChatMessage]:
        return (
            list(shown.messages) if shown.after else with_tools(shown.messages, self.script.tools)
        )

    def demonstrate(self, rng: random.Random) -> str:
        return FORCED[min(self.n_said, 1)]


class Surface:
    """A script in one dialect, as a client keeps it."""

    def __init__(self, agent: Agent, session: aiohttp.ClientSession, script: Script) -> None:
        self.agent = agent
        self.session = session
        self.script = script
        self.histories: list[list[Any]] = [[]]
        """Up to each action, that included."""

    async def show(self, shown: Shown) -> str:
        """And what the policy said."""
        new = [each for message in shown.messages for each in self.written(message)]
        history = [*self.histories[shown.after], *new]
        said, words = await self.asked(history, shown)
        self.histories.append([*history, *said])
        return words

    def written(self, message: ChatMessage) -> list[Any]:
        raise NotImplementedError

    async def asked(self, history: list[Any], shown: Shown) -> tuple[list[Any], str]:
        raise NotImplementedError

    async def post(self, url: str, body: Body, **headers: str) -> Body:
        keys = {"Authorization": f"Bearer {self.agent.api_key}", **headers}
        async with self.session.post(url, json=body, headers=keys) as response:
            told: Body = await response.json()
            assert response.status == 200, told
            return told


class Chat(Surface):
    def written(self, message: ChatMessage) -> list[Any]:
        if message == CALL:
            function = {"name": CALLED.name, "arguments": CALLED.arguments}
            call = {"id": "call_x", "type": "function", "function": function}
            return [{"role": "assistant", "content": None, "tool_calls": [call]}]
        written = {"role": message.role, "content": message.content}
        return [{**written, "tool_call_id": "call_x"} if message.role == "tool" else written]

    async def asked(self, history: list[Any], shown: Shown) -> tuple[list[Any], str]:
        body: Body = {"model": "gpt-4o", "messages": history, "temperature": 0.3, "user": "me"}
        if self.script.tools:
            function = {"name": ADD.name, "description": ADD.about, "parameters": SCHEMA}
            body["tools"] = [{"type": "function", "function": function}]
        told = await self.post(f"{self.agent.base_url}/chat/completions", body)
        message = told["choices"][0]["message"]
        return [message], message["content"]


class Responses(Surface):
    def written(self, message: ChatMessage) -> list[Any]:
        if message == CALL:
            call = {"type": "function_call", "call_id": "call_x", "name": CALLED.name}
            return [{**call, "arguments": CALLED.arguments}]
        if message.role == "tool":
            result = {"type": "function_call_output", "call_id": "call_x"}
            return [{**result, "output": message.content}]
        said = {"role": message.role, "content": message.content}
        return [] if message == SYSTEM else [said]

    async def asked(self, history: list[Any], shown: Shown) -> tuple[list[Any], str]:
        told = await self.respond({"input": history, "store": False})
        return told["output"], _told_in(told)

    async def respond(self, asked: Body) -> Body:
        body: Body = {"model": "gpt-5", "instructions": SYSTEM.content, **asked}
        if self.script.tools:
            tool = {"type": "function", "name": ADD.name, "description": ADD.about}
            body["tools"] = [{**tool, "parameters": SCHEMA}]
        return await self.post(f"{self.agent.base_url}/responses", body)


class Named(Responses):
    """Responses that name what was said before; a history is the id of the last answer."""

    async def asked(self, history: list[Any], shown: Shown) -> tuple[list[Any], str]:
        before = [each for each in history if isinstance(each, str)]
        asked: Body = {"input": [each for each in history if not isinstance(each, str)]}
        if before:
            asked["previous_response_id"] = before[-1]
        told = await self.respond(asked)
        return [told["id"]], _told_in(told)

    async def show(self, shown: Shown) -> str:
        words = await super().show(shown)
        self.histories[-1] = self.histories[-1][-1:]
        return words


def _told_in(told: Body) -> str:
    messages = (item for item in told["output"] if item["type"] == "message")
    return "".join(item["content"][0]["text"] for item in messages)


class Messages(Surface):
    def written(self, message: ChatMessage) -> list[Any]:
        if message == SYSTEM:
            return []
        role = "user" if message.role == "tool" else message.role
        block: Body = {"type": "text", "text": message.content}
        if message == CALL:
            block = {"type": "tool_use", "id": "call_x", "name": CALLED.name, "input": {"a": 1}}
        elif message.role == "tool":
            block = {"type": "tool_result", "tool_use_id": "call_x", "content": message.content}
        return [{"role": role, "content": [block]}]

    async def asked(self, history: list[Any], shown: Shown) -> tuple[list[Any], str]:
        body: Body = {"model": "claude", "max_tokens": 9, "system": SYSTEM.content}
        body["messages"] = history
        if self.script.tools:
            tool = {"name": ADD.name, "description": ADD.about, "input_schema": SCHEMA}
            body["tools"] = [tool]
        told = await self.post(f"{self.agent.root_url}/v1/messages", body)
        said = {"role": "assistant", "content": told["content"]}
        return [said], "".join(block.get("text", "") for block in told["content"])


class Tokens(Surface):
    """Renders by itself, as the chat template of `warren/tiny` does: contents as they are, and the end of turns."""

    async def show(self, shown: Shown) -> str:
        history = self.histories[shown.after]
        messages = shown.messages if shown.after else with_tools(shown.messages, self.script.tools)
        begun = [BOS] if not history else [] if history[-1] == EOS else [EOS]
        asked = [*history, *begun, *rendered(messages)]
        said = await self.generated(asked)
        self.histories.append([*asked, *said])
        return words_of(said)

    async def generated(self, ids: list[int]) -> list[int]:
        params = {"temperature": 0.3, "stop_token_ids": [EOS], "logprobs": 1}
        body = {"model": "warren/tiny", "token_ids": ids, "sampling_params": params}
        told = await self.post(f"{self.agent.root_url}/inference/v1/generate", body)
        return told["choices"][0]["token_ids"]


def words_of(ids: Iterable[int]) -> str:
    return "".join(CHARACTERS[token - BOS - 1] for token in ids if token > BOS)


def rendered(messages: Sequence[ChatMessage]) -> list[int]:
    ids = list[int]()
    for message in messages:
        places = (CHARACTERS.find(character) for character in message.content)
        ids += [PAD if place < 0 else BOS + 1 + place for place in places]
        ids += [EOS] if message.role == "assistant" else []
    return ids


SURFACES: Mapping[str, type[Surface]] = {
    "chat": Chat,
    "responses": Responses,
    "responses by id": Named,
    "messages": Messages,
    "tokens": Tokens,
}


class Speaks(AgentEnv):
    """The same conversation as `Native`, through the endpoint."""

    name = "speaks"

    def __init__(self, dialect: str = "chat", script: str = "rewritten") -> None:
        self.dialect = dialect
        self.script = SCRIPTS[script]
        self.n_forced = 0

    async def run(self, task: None, agent: Agent) -> float:
        async with aiohttp.ClientSession() as session:
            surface = SURFACES[self.dialect](agent, session, self.script)
            for shown in self.script.shown:
                await surface.show(shown)
        return 1.0

    def demonstrate(self, rng: random.Random) -> str:
        self.n_forced += 1
        return FORCED[min(self.n_forced - 1, 1)]


class Replays(Speaks):
    """The same, and it may be started again."""

    name = "replays"
    replayable = True
