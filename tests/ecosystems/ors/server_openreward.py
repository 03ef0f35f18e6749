"""A server of `openreward`: `python server_openreward.py PORT`, in the environment of `openreward.txt`.

Besides those of `ors-sdk`, environments with what only this package has:

Told      a terminal tool that takes the policy's last words
Watched   one that takes none, and judges by what was looked at
Dialogue  a prompt with roles
Compared  scores of whole groups, beside the rewards of its calls
"""

import os
import sys
from collections.abc import Sequence

from openreward.environments import Server, terminal, tool
from openreward.environments.types import (
    GroupCandidate,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolOutput,
    ToolResultBlock,
)
from vaults import Clock, Code, Trouble, Vault, said


class Told(Vault):
    @terminal
    @tool
    async def tell(self, with_code: Code) -> ToolOutput:
        """Says the code."""
        return said("told", reward=float(with_code.code == self.task_spec["code"]), finished=True)


class Watched(Vault):
    @terminal
    @tool
    async def judge(self) -> ToolOutput:
        """Counts the looks."""
        return said("judged", reward=float(self.n_looks), finished=True)


class Dialogue(Vault):
    def get_messages(self) -> list[Message]:
        looked = ToolCallBlock(id="1", name="look", input={"place": 0})
        digit = ToolResultBlock(tool_call_id="1", blocks=[TextBlock(text="1")])
        said = [ReasoningBlock(text="Hm."), TextBlock(text="I look."), looked]
        return [
            Message(role="system", blocks=[TextBlock(text="You open vaults.")]),
            Message(role="user", blocks=[TextBlock(text="Open the vault.")]),
            Message(role="assistant", blocks=said),
            Message(role="user", blocks=[digit, TextBlock(text="Go on.")]),
        ]


class Compared(Vault):
    async def score_group(self, candidates: Sequence[GroupCandidate]) -> list[float]:
        return [float(len(candidate.messages)) for candidate in candidates]


if __name__ == "__main__":
    os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"  # it would ask the internet
    server = Server([Vault, Clock, Trouble, Told, Watched, Dialogue, Compared])
    server.run(host="127.0.0.1", port=int(sys.argv[1]))
