"""Agents under test, and the environment that has the same conversation with the policy."""

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp

from warren import Agent, AgentEnv, CommandAgent, Env, StepResult
from warren.environment import ChatMessage, Context, Limits

SYSTEM, FIRST, SECOND, OTHER, ANEW = "guess:", "?", ">", "<", "again?"
Body = dict[str, Any]


class Native(Env):
    """`FIRST`, `SECOND`; then back to the first answer with `OTHER`; then `ANEW`, from the start."""

    name = "native"

    def reset(self, task: None, ctx: Context) -> list[ChatMessage]:
        self.shown = [
            StepResult(SECOND),
            StepResult(OTHER, after=1),
            StepResult(self.opening(ANEW), after=0),
            StepResult(reward=1.0, done=True),
        ]
        return self.opening(FIRST)

    def step(self, action: str) -> StepResult:
        return self.shown.pop(0)

    @staticmethod
    def opening(words: str) -> list[ChatMessage]:
        return [
            ChatMessage(role="system", content=SYSTEM),
            ChatMessage(role="user", content=words),
        ]


class Surface:
    """One conversation in one dialect, as a client keeps it."""

    def __init__(self, agent: Agent, session: aiohttp.ClientSession) -> None:
        self.agent = agent
        self.session = session
        self.history: list[Body] = []

    async def say(self, words: str) -> str:
        raise NotImplementedError

    async def post(self, url: str, body: Body, **headers: str) -> Body:
        keys = {"Authorization": f"Bearer {self.agent.api_key}", **headers}
        async with self.session.post(url, json=body, headers=keys) as response:
            told: Body = await response.json()
            assert response.status == 200, told
            return told


class Chat(Surface):
    async def say(self, words: str) -> str:
        messages = self.history or [{"role": "system", "content": SYSTEM}]
        messages = [*messages, {"role": "user", "content": words}]
        body = {"model": "gpt-4o", "messages": messages, "temperature": 0.3, "user": "me"}
        told = await self.post(f"{self.agent.base_url}/chat/completions", body)
        message = told["choices"][0]["message"]
        self.history = [*messages, message]
        return message["content"]


class Responses(Surface):
    async def say(self, words: str) -> str:
        items = [*self.history, {"role": "user", "content": words}]
        body = {"model": "gpt-5", "instructions": SYSTEM, "input": items, "store": False}
        told = await self.post(f"{self.agent.base_url}/responses", body)
        self.history = [*items, *told["output"]]
        return told["output"][0]["content"][0]["text"]


class Named(Surface):
    """Responses that name what was said before."""

    async def say(self, words: str) -> str:
        body: Body = {"model": "gpt-5", "instructions": SYSTEM, "input": words}
        if self.history:
            body["previous_response_id"] = self.history[-1]["id"]
        told = await self.post(f"{self.agent.base_url}/responses", body)
        self.history = [*self.history, told]
        return told["output"][0]["content"][0]["text"]


class Messages(Surface):
    async def say(self, words: str) -> str:
        messages = [*self.history, {"role": "user", "content": [{"type": "text", "text": words}]}]
        body = {"model": "claude", "max_tokens": 9, "system": SYSTEM, "messages": messages}
        told = await self.post(f"{self.agent.root_url}/v1/messages", body)
        self.history = [*messages, {"role": "assistant", "content": told["content"]}]
        return told["content"][0]["text"]


SURFACES: Mapping[str, type[Surface]] = {
    "chat": Chat,
    "responses": Responses,
    "responses by id": Named,
    "messages": Messages,
}


class Speaks(AgentEnv):
    """The same conversation as `Native`, through the endpoint."""

    name = "speaks"

    def __init__(self, dialect: str = "chat") -> None:
        self.dialect = dialect

    async def run(self, task: None, agent: Agent) -> float:
        async with aiohttp.ClientSession() as session:
            surface = SURFACES[self.dialect](agent, session)
            await surface.say(FIRST)
            before = surface.history
            await surface.say(SECOND)
            surface.history = before
            await surface.say(OTHER)
            surface.history = []
            await surface.say(ANEW)
        return 1.0


class Replays(Speaks):
    """The same, and it may be started again."""

    name = "replays"
    replayable = True


class Troubled(AgentEnv):
    """Does what agents should not."""

    name = "troubled"
    limits = Limits(reset_s=20.0, step_s=2.0)

    def __init__(self, how: str) -> None:
        self.how = how

    async def run(self, task: None, agent: Agent) -> float | None:
        if self.how == "never asks":
            return 1.0
        async with aiohttp.ClientSession() as session:
            chat = Chat(agent, session)
            await chat.say(FIRST)
            if self.how == "raises":
                raise RuntimeError("it broke")
            if self.how == "waits":
                await asyncio.Event().wait()
            if self.how == "gives nothing":
                return None
            if self.how == "goes on":
                for _ in range(9):
                    agent.reward(0.25)
                    await chat.say(SECOND)
        return 1.0


class Parallel(AgentEnv):
    """Asks three things at once, and one of them again with its own key."""

    name = "parallel"

    async def run(self, task: None, agent: Agent) -> float:
        async with aiohttp.ClientSession() as session:
            chats = [Chat(agent, session) for _ in range(3)]
            await asyncio.gather(
                *(chat.say(words) for chat, words in zip(chats, "abc", strict=True))
            )
            body: Body = {"model": "m", "messages": [{"role": "user", "content": "d"}]}
            url = f"{agent.base_url}/chat/completions"
            keyed = {"Idempotency-Key": "one"}
            first = await chats[0].post(url, body, **keyed)
            assert await chats[0].post(url, body, **keyed) == first
            again = {"x-stainless-retry-count": "1"}
            assert (await chats[0].post(url, body, **again))["id"] == first["id"]
        return 1.0


class GuessAgent(AgentEnv):
    """The guessing game, played by an agent."""

    name = "guess_agent"

    async def run(self, task: None, agent: Agent) -> float:
        hidden = agent.context.rng.randint(0, 9)
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout()) as session:
            chat, shown = Chat(agent, session), "?"
            for _ in range(4):
                said = await chat.say(shown)
                if said == str(hidden):
                    return 1.0
                shown = "<" if said > str(hidden) else ">"
        return 0.0


class Blocking(AgentEnv):
    """A plain function, which has a process to itself."""

    name = "blocking"

    def run(self, task: None, agent: Agent) -> dict[str, float]:
        said = asyncio.run(self._said(agent))
        return {"said": float(len(said) >= 0), "half": -0.5}

    async def _said(self, agent: Agent) -> str:
        async with aiohttp.ClientSession() as session:
            return await Chat(agent, session).say(FIRST)


class Curl(CommandAgent):
    """A shell script."""

    name = "curl"
    command = (
        "bash",
        "-c",
        """curl -sf $OPENAI_BASE_URL/chat/completions -H "Authorization: Bearer $OPENAI_API_KEY" \\
        -H "Content-Type: application/json" -d '{"model": "m", "messages": [{"role": "user", "content": "?"}]}'
        echo 0.5 > $WARREN_REWARD""",
    )


class Exits(CommandAgent):
    """A shell script that fails after it has asked."""

    name = "exits"
    command = ("bash", "-c", f"{Curl.command[2]}; echo sorry; exit 3")


class Lingers(CommandAgent):
    """A shell script that asks with its number and that of what it leaves in the background, in a session of its own."""

    name = "lingers"
    command = (
        "bash",
        "-c",
        """setsid sleep 3600 &
        curl -sf $OPENAI_BASE_URL/chat/completions -H "Authorization: Bearer $OPENAI_API_KEY" \\
        -H "Content-Type: application/json" -d '{"model": "m", "messages": [{"role": "user", "content": "'"$$ $!"'"}]}'
        echo 0.5 > $WARREN_REWARD""",
    )


class Missing(CommandAgent):
    """A program that there is not."""

    name = "missing"
    command = ("no-such-program",)
