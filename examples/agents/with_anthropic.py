"""Anthropic's client."""

import anthropic
from anthropic.types import MessageParam
from two_digits import TwoDigits, asked

from warren import Agent

CLIENT = anthropic.AsyncAnthropic(api_key="of no episode")


class WithAnthropic(TwoDigits):
    name = "with_anthropic"

    async def run(self, task: None, agent: Agent) -> None:
        client = CLIENT.with_options(base_url=agent.root_url, api_key=agent.api_key)
        messages: list[MessageParam] = []

        async def say(words: str) -> str:
            messages.append({"role": "user", "content": words})
            answer = await client.messages.create(model="claude", max_tokens=9, messages=messages)
            messages.append({"role": "assistant", "content": answer.content})
            return "".join(block.text for block in answer.content if block.type == "text")

        await asked(agent, say)
