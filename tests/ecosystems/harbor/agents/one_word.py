"""An agent for Harbor's trials that writes what the policy says into a file: for a model that calls no tools.

Where the task says "wait in FOLDER" it waits there to be killed, once the policy has spoken: see `once_one_waits` in
tests/ecosystems/whole_run.py.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# (the package lies in an environment of its own)

import asyncio
import os
import shlex
from pathlib import Path
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
        if is_to_be_killed(instruction):
            await asyncio.Event().wait()
        await environment.exec(f"printf %s {shlex.quote(said)} > /app/answer.txt")


def is_to_be_killed(instruction: str) -> bool:
    folder = instruction.partition("wait in ")[2].strip()
    if not folder or Path(folder, "go-on").exists():
        return False
    Path(folder, str(os.getpid())).touch()
    return True
