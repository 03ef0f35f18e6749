"""An environment with tools, and a model each of whose tokens may be a whole call: as it is drawn, it makes some."""

import json
from pathlib import Path

from tests.ecosystems.tinker.lettered import build_lettered

from warren.environment import Context, StepResult
from warren.tools import ToolEnv, tool

N_DOORS, RIGHT_DOOR = 4, 2


class Doors(ToolEnv[int]):
    name = "doors"
    splits = ("train",)

    def tasks(self, split: str) -> list[int]:
        return list(range(6))

    def reset(self, task: int, ctx: Context) -> str:
        return f"House {task}. Find the right door."

    @tool
    def listen(self) -> StepResult:
        """Hear what is behind the doors."""
        return StepResult("nothing yet", reward=0.1)

    @tool
    def open(self, door: int) -> StepResult:
        """Go through a door."""
        return StepResult("you are in", reward=float(door == RIGHT_DOOR), done=True)

    def answer(self, words: str) -> StepResult:
        return StepResult(reward=0.0, done=True)


def build_calling(tiny: Path, folder: Path) -> None:
    calls = [_call("listen"), *(_call("open", door=door) for door in range(N_DOORS))]
    build_lettered(tiny, folder, [*calls, "<|im_start|>", "<|im_end|>"])


def _call(name: str, **arguments: int) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
