"""Environments as users of `ors-sdk` write them, and those of `openreward`, which it was taken out of.

Vault     find a code of four digits by asking for one digit after the other; the same for the same calls
Clock     shows how long the server has been up: no two sessions are the same
Trouble   raises in a call, is slow, waits for another session, sends a lot, shows images, takes a secret
"""

import asyncio
import base64
import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

try:
    from ors import Environment, tool
    from ors.types import ImageBlock, ListToolsOutput, TextBlock, ToolOutput, ToolSpec
except ImportError:
    from openreward.environments import Environment, tool
    from openreward.environments.types import (
        ImageBlock,
        ListToolsOutput,
        TextBlock,
        ToolOutput,
        ToolSpec,
    )

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def said(
    text: str, reward: float | None = None, *, finished: bool = False, image: bool = False
) -> ToolOutput:
    blocks: list[TextBlock | ImageBlock] = [TextBlock(text=text)]
    if image:
        data = base64.b64encode(PNG).decode()
        blocks.insert(0, ImageBlock(data=data, mimeType="image/png"))
    return ToolOutput(blocks=blocks, reward=reward, finished=finished)


class Place(BaseModel):
    place: int


class Code(BaseModel):
    code: str


class Vault(Environment):
    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train", "test"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, str]]:
        start = 1000 if split == "train" else 9000
        return [{"id": f"{split}-{number}", "code": str(start + number)} for number in range(20)]

    def setup(self) -> None:
        self.n_looks = 0

    def get_prompt(self) -> list[TextBlock | ImageBlock]:
        return [TextBlock(text="Open the vault: four digits.")]

    @tool
    async def look(self, at: Place) -> ToolOutput:
        """The digit at a place, from 0 to 3."""
        self.n_looks += 1
        return said(f"{self.task_spec['code'][at.place]} (look {self.n_looks})", reward=0.1)

    @tool
    async def open(self, with_code: Code) -> ToolOutput:
        """Opens the vault, or not: then it is over."""
        is_right = with_code.code == self.task_spec["code"]
        return said("open" if is_right else "shut", reward=float(is_right), finished=True)


class Clock(Vault):
    @tool
    async def look(self, at: Place) -> ToolOutput:
        """Who serves this."""
        return said(f"served by {os.getpid()}", reward=0.1)


released = asyncio.Event()
"""By another session."""


class Trouble(Vault):
    def __init__(self, task_spec: Mapping[str, Any], secrets: dict[str, str]) -> None:
        super().__init__(task_spec, secrets)
        self.secrets = secrets

    def get_prompt(self) -> list[TextBlock | ImageBlock]:
        image = base64.b64encode(PNG).decode()
        return [ImageBlock(data=image, mimeType="image/png"), TextBlock(text="Look.")]

    def list_task_tools(self) -> ListToolsOutput:
        schema: dict[str, Any] = {"type": "object", "properties": {}}
        return ListToolsOutput(
            tools=[ToolSpec(name="extra", description="Of this task.", input_schema=schema)]
        )

    @tool
    async def kaput(self) -> ToolOutput:
        """Raises."""
        raise RuntimeError("kaput")

    @tool
    async def much(self) -> ToolOutput:
        """A lot, with spaces where it is cut."""
        return said("é " * 2100 + "end", reward=None, image=True)

    @tool(shared=False)
    async def extra(self) -> ToolOutput:
        """Of this task."""
        return said("extra")

    @tool
    async def slow(self) -> ToolOutput:
        """Takes its time."""
        await asyncio.sleep(1)
        return said("at last")

    @tool
    async def hold(self) -> ToolOutput:
        """Until a session releases it."""
        self.n_looks += 1
        released.clear()
        await released.wait()
        return said(f"held ({self.n_looks})", reward=0.5)

    @tool
    async def release(self) -> ToolOutput:
        """What another session holds."""
        released.set()
        return said("released")

    @tool
    async def secret(self) -> ToolOutput:
        """What it was given."""
        told = [f"{name}: {value[::-1]}" for name, value in sorted(self.secrets.items())]
        return said(", ".join(told), reward=0.0)
