"""A server of `openreward` with one environment, as OpenReward starts one for each that it hosts:
`python server_whodunit.py PORT`.

WhoDunit   takes the culprit's name as the last words; gives half of the reward for asking a suspect, and less without the secret.
           A client that has a key of OpenReward gives it under both of its names
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

from openreward.environments import Environment, Server, terminal, tool
from openreward.environments.types import ImageBlock, TextBlock, ToolOutput
from pydantic import BaseModel
from vaults import said


class Suspect(BaseModel):
    name: str


class WhoDunit(Environment):
    def __init__(self, task_spec: Mapping[str, Any], secrets: dict[str, str]) -> None:
        super().__init__(task_spec, secrets)
        keys = {secrets.pop(name, None) for name in ("api_key", "OPENREWARD_API_KEY")}
        self.is_licensed = len(keys) == 1 and secrets == {"other_key": "of-the-house"}

    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train", "validation"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, str]]:
        return [{"id": f"{split}-{number}", "culprit": f"Q{number}"} for number in range(30)]

    def get_prompt(self) -> list[TextBlock | ImageBlock]:
        return [TextBlock(text=f"Who did it in {self.task_spec['id']}?")]

    @tool
    async def question(self, suspect: Suspect) -> ToolOutput:
        """Asks a suspect."""
        is_culprit = suspect.name == self.task_spec["culprit"]
        return said("I was not at home." if is_culprit else "I slept.", reward=float(is_culprit))

    @terminal
    @tool
    async def accuse(self, suspect: Suspect) -> ToolOutput:
        """Ends it. Anybody's name is worth something, by its length, so that no two policies are the same."""
        if not self.is_licensed:
            raise PermissionError("no license")
        is_culprit = suspect.name == self.task_spec["culprit"]
        return said("", reward=9.0 if is_culprit else len(suspect.name) % 7 / 14, finished=True)


if __name__ == "__main__":
    os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"  # it would ask the internet
    Server([WhoDunit]).run(host="127.0.0.1", port=int(sys.argv[1]))
