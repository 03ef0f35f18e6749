"""A server of `openreward`: `python server_openreward.py PORT`, in the environment of `openreward.txt`.

Besides those of `ors-sdk`, environments with a terminal tool, which only this package has:

Told      takes the policy's last words
Watched   takes none, and judges by what was looked at
"""

import os
import sys

from openreward.environments import Server, terminal, tool
from openreward.environments.types import ToolOutput
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


if __name__ == "__main__":
    os.environ["OPENREWARD_DISABLE_UPDATE_CHECK"] = "1"  # it would ask the internet
    server = Server([Vault, Clock, Trouble, Told, Watched])
    server.run(host="127.0.0.1", port=int(sys.argv[1]))
