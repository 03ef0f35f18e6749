"""A loop around OpenAI's client, as people write them."""

import openai
from openai.types.chat import ChatCompletionMessageParam
from two_digits import TwoDigits, asked

from warren import Agent

CLIENT = openai.AsyncOpenAI(api_key="of no episode")
"""All episodes share its connections; each brings its own address and key."""


class WithOpenAI(TwoDigits):
    name = "with_openai"

    async def run(self, task: None, agent: Agent) -> None:
        client = CLIENT.with_options(base_url=agent.base_url, api_key=agent.api_key)
        messages: list[ChatCompletionMessageParam] = []

        async def say(words: str) -> str | None:
            messages.append({"role": "user", "content": words})
            answer = await client.chat.completions.create(model="gpt-5", messages=messages)
            said = answer.choices[0].message.content
            messages.append({"role": "assistant", "content": said})
            return said

        await asked(agent, say)
