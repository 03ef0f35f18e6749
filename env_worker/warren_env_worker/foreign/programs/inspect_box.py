"""A sandbox for samples of Inspect that is a box on this machine, in the Python where Inspect is installed."""

import importlib
import os
import sys
from typing import Any

util: Any = importlib.import_module("inspect_ai.util")
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
boxes: Any = importlib.import_module("box")

FOLDER = "/work"
ISOLATION: dict[str, Any] = {}
"""Of the boxes of this process's episode."""
ROOT = (None, "root", "0")


@util.sandboxenv(name="box")
class BoxSandbox(util.SandboxEnvironment):
    def __init__(self, box: Any) -> None:
        parent: Any = super()
        parent.__init__()
        self._box = box

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> Any:
        box = await boxes.Box.begun(ISOLATION)
        await box.run(["mkdir", "-p", FOLDER])
        return {"default": cls(box)}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: Any, interrupted: bool
    ) -> None:
        for environment in environments.values():
            await environment._box.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,  # noqa: ASYNC109 - its name there
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> Any:
        if user not in ROOT:
            raise RuntimeError(f"a box has no user {user}: it needs docker")
        given = input.encode() if isinstance(input, str) else input or b""
        ended = await self._box.run(cmd, os.path.join(FOLDER, cwd or ""), env, timeout, given)
        if ended.is_late:
            raise TimeoutError(f"{cmd[0]} took longer than {timeout} s")
        output, errors = (printed.decode(errors="replace") for printed in ended[1:3])
        return util.ExecResult(ended.status == 0, ended.status, output, errors)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        content = contents.encode() if isinstance(contents, str) else contents
        await self._box.write(os.path.join(FOLDER, file), content)

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        path = os.path.join(FOLDER, file)
        if (await self._box.run(["test", "-e", path])).status != 0:
            raise FileNotFoundError(f"there is no {file}")
        content: bytes = await self._box.content(path)
        return content.decode() if text else content
