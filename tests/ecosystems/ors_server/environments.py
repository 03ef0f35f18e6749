"""What the tests of `warren ors-server` serve besides the environments that come with Warren."""

import os
from pathlib import Path

from warren.environment import ChatMessage, Context, Env, Image, Observation, StepResult
from warren.tools import ToolEnv, tool

PNG = bytes.fromhex("89504e470d0a1a0a") + b"picture"


class Vault(ToolEnv[str]):
    """Tasks of its own, two tools, a system prompt, an image, and words that an assistant said."""

    name = "vault"
    splits = ("train", "test")

    def tasks(self, split: str) -> list[str]:
        start = 1000 if split == "train" else 9000
        return [str(start + number) for number in range(20)]

    def id_of(self, task: str) -> str:
        return f"code-{task}"

    def system_prompt(self) -> str:
        return "You open vaults."

    def reset(self, task: str, ctx: Context) -> list[ChatMessage]:
        self.code = task
        images = (Image.of(PNG),)
        return [
            ChatMessage(role="user", content="Four digits.", images=images),
            ChatMessage(role="assistant", content="May I look?", is_quoted=True),
            ChatMessage(role="user", content="You may."),
        ]

    @tool
    def look(self, place: int) -> StepResult:
        """The digit at a place, from 0 to 3."""
        return StepResult(self.code[place] + "é " * 2100, reward=0.1)

    @tool
    def kaput(self) -> str:
        """Raises."""
        raise RuntimeError("kaput")

    def answer(self, words: str) -> StepResult:
        return StepResult(reward=float(words == self.code), done=True)


class Counter(Env):
    """Counts the actions of its episode, and the processes that it had, in a file of the tests."""

    name = "counter"

    def __init__(self, file: str, replays: bool = True) -> None:
        self.file = Path(file)
        self.replays = replays

    def reset(self, task: None, ctx: Context) -> Observation:
        self.n_actions = 0
        with self.file.open("a") as lines:
            lines.write(f"{os.getpid()}\n")
        return f"task {ctx.index}"

    def step(self, action: str) -> StepResult:
        self.n_actions += 1
        if action == "crash":
            os._exit(1)
        shown = f"{self.n_actions} {action}" if self.replays else f"{os.getpid()} {action}"
        return StepResult(shown, reward=1.0, done=action == "end")
