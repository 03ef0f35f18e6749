"""An agent for Harbor's trials that can't be made, and says so with the key that it finds in a variable."""

# pyright: basic, reportMissingImports=false
# (the package lies in an environment of its own)

import os

from harbor.agents.base import BaseAgent


class Telling(BaseAgent):
    @staticmethod
    def name() -> str:
        return "telling"

    def version(self) -> str:
        return "1"

    def __init__(self, *given, **named) -> None:
        raise ValueError("x" * 278 + os.environ["JUDGE_KEY"])

    async def setup(self, environment) -> None:
        pass

    async def run(self, instruction, environment, context) -> None:
        pass
