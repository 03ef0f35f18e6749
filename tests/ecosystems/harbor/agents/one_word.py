"""An agent for Harbor's trials that writes what the policy says into a file: for a model that calls no tools."""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import os
import shlex
from typing import Any

import openai
from harbor.agents.base import BaseAgent


class OneWord(BaseAgent):
    @staticmethod
    def name() -> str:
        return "one-word"

    def version(self) -> str:
        return "1"

    async def setup(self, environment) -> None:
        pass

    async def run(self, instruction, environment, context) -> None:
        address = {name: os.environ[f"OPENAI_{name.upper()}"] for name in ("base_url", "api_key")}
        made: Any = openai.AsyncOpenAI
        async with made(**address, timeout=None) as client:
            messages = [{"role": "user", "content": instruction}]
            answer = await client.chat.completions.create(model="policy", messages=messages)
        said = answer.choices[0].message.content or ""
        await environment.exec(f"printf %s {shlex.quote(said)} > /app/answer.txt")
