"""Agents under test: what they do well, and what they should not."""

import asyncio
import sys
from typing import Any

import aiohttp
from tests.support.environments import LIMIT_S

from warren import Agent, AgentEnv, CommandAgent
from warren.agents.environment import ENDPOINT
from warren.environment import Limits

SYSTEM, FIRST, SECOND = "guess:", "?", ">"
Body = dict[str, Any]


class Chat:
    """One conversation by chat completions, as a client keeps it."""

    def __init__(self, agent: Agent, session: aiohttp.ClientSession) -> None:
        self.agent = agent
        self.session = session
        self.history: list[Body] = []

    async def say(self, words: str) -> str:
        messages = self.history or [{"role": "system", "content": SYSTEM}]
        messages = [*messages, {"role": "user", "content": words}]
        body = {"model": "gpt-4o", "messages": messages, "temperature": 0.3, "user": "me"}
        told = await self.post(f"{self.agent.base_url}/chat/completions", body)
        message = told["choices"][0]["message"]
        self.history = [*messages, message]
        return message["content"]

    async def post(self, url: str, body: Body, **headers: str) -> Body:
        keys = {"Authorization": f"Bearer {self.agent.api_key}", **headers}
        async with self.session.post(url, json=body, headers=keys) as response:
            told: Body = await response.json()
            assert response.status == 200, told
            return told


class Troubled(AgentEnv):
    """Does what agents should not."""

    name = "troubled"
    limits = Limits(reset_s=60.0, step_s=LIMIT_S)

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


class Blocking(AgentEnv):
    """A plain function, which has a process to itself."""

    name = "blocking"

    def run(self, task: None, agent: Agent) -> dict[str, float]:
        said = asyncio.run(self._said(agent))
        return {"said": float(len(said) >= 0), "half": -0.5}

    async def _said(self, agent: Agent) -> str:
        async with aiohttp.ClientSession() as session:
            return await Chat(agent, session).say(FIRST)


class Prepared(Blocking):
    """Earns 1 where its process had the endpoint before the episode began."""

    name = "prepared"

    def __init__(self) -> None:
        self.has_endpoint = ENDPOINT in sys.modules

    def run(self, task: None, agent: Agent) -> dict[str, float]:
        super().run(task, agent)
        return {"prepared": float(self.has_endpoint)}


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
