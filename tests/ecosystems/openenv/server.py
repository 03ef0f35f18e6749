"""Servers of `openenv`, as its users write them, below one address: `python server.py PORT`, in `.venv-openenv`.

/vault    text actions and tasks: guess a code of four digits, one at a time; the same for the same actions
/nameless tasks by number alone
/pid      shows which process serves: begun anew elsewhere, it goes on otherwise
/talk     rewards what is said, in two turns
/point    actions with two numbers
/shop     tools (MCP), and a reward when one has bought
/single   room for one session
/keyed    the same as /vault, for who has the key
"""

# pyright: basic, reportMissingImports=false
# (the package lies in an environment of its own)

import os
import sys
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from fastmcp import FastMCP
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import Action, Observation, State

sys.path.append(str(Path(__file__).parents[1]))
from keyed import Keyed

DIGITS = ("0", "1", "2", "3")


class Said(Action):
    words: str


class Move(Action):
    """Go there."""

    x: int
    y: int


class Shown(Observation):
    text: str = ""
    n_steps: int = 0


class Vault(Environment[Said, Shown, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def list_splits(self) -> list[str]:
        return ["train", "test"]

    def num_tasks(self, split: str) -> int:
        return 20 if split == "train" else 5

    def get_task(self, split: str, index: int) -> dict[str, Any]:
        return {"task_id": f"{split}-code-{index}", "index": index}

    def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None
    ) -> list[dict[str, Any]]:
        numbers = range(self.num_tasks(split))[start:stop]
        return [self.get_task(split, number) for number in numbers]

    def reset(self, seed: int | None = None, episode_id: str | None = None, **task: Any) -> Shown:
        start = 1000 if task.get("split", "train") == "train" else 9000
        self.code = str(start + int(task.get("index", (seed or 0) % 20)))
        self.n_steps = 0
        text = f"Open the vault: {task.get('hint', 'four digits')}."
        return Shown(text=text, reward=task.get("reward"))

    def step(self, action: Said, timeout_s: float | None = None, **_: Any) -> Shown:
        if action.words == "kaput":
            raise RuntimeError("kaput")
        self.n_steps += 1
        if action.words in DIGITS:
            return Shown(text=f"{self.code[int(action.words)]}", n_steps=self.n_steps, reward=0.1)
        is_right = action.words == self.code
        return Shown(text="open" if is_right else "shut", reward=float(is_right), done=True)

    @property
    def state(self) -> State:
        return State(step_count=self.n_steps)


class Pid(Vault):
    def step(self, action: Said, timeout_s: float | None = None, **_: Any) -> Shown:
        return Shown(text=f"served by {os.getpid()}")


class Talk(Vault):
    """Two turns, each rewarded by the bytes of what is said."""

    def step(self, action: Said, timeout_s: float | None = None, **_: Any) -> Shown:
        self.n_steps += 1
        reward = sum(action.words.encode()) % 7 / 6
        return Shown(text=f"step {self.n_steps}", reward=reward, done=self.n_steps == 2)


class Nameless(Environment[Said, Shown, State]):
    """Its tasks have numbers alone."""

    def list_splits(self) -> list[str]:
        return ["train"]

    def num_tasks(self, split: str) -> int:
        return 2

    def reset(self, seed: int | None = None, episode_id: str | None = None, **_: Any) -> Shown:
        return Shown(text="go")

    def step(self, action: Said, timeout_s: float | None = None, **_: Any) -> Shown:
        return Shown(text="gone", reward=1.0, done=True)

    @property
    def state(self) -> State:
        return State()


class Point(Environment[Move, Shown, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **_: Any
    ) -> Observation:
        return Shown(text="go to 1, 2")

    def step(self, action: Move, timeout_s: float | None = None, **_: Any) -> Shown:
        is_there = (action.x, action.y) == (1, 2)
        return Shown(text=f"at {action.x}, {action.y}", reward=float(is_there), done=is_there)

    @property
    def state(self) -> State:
        return State()


class Shop(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        server, self.n_bought = FastMCP("shop"), 0
        server.tool(self.price)
        server.tool(self.buy)
        super().__init__(server)

    def price(self, article: str) -> int:
        """The price of an article."""
        return len(article)

    def buy(self, article: str, n: int) -> str:
        """Buys so many."""
        self.n_bought += n
        return f"{self.n_bought} bought"

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, **_: Any
    ) -> Observation:
        return Observation(metadata={"prompt": "Buy two teas.", "at": os.getpid()})

    async def step_async(
        self, action: Action, timeout_s: float | None = None, **options: Any
    ) -> Observation:
        observation = await super().step_async(action, timeout_s, **options)
        observation.done = self.n_bought >= 2
        observation.reward = 1.0 if observation.done else None
        return observation

    def _step_impl(self, action: Action, timeout_s: float | None = None, **_: Any) -> Observation:
        raise NotImplementedError

    @property
    def state(self) -> State:
        return State()


def app() -> FastAPI:
    whole = FastAPI()
    many = {"max_concurrent_envs": 300}
    whole.mount("/vault", create_fastapi_app(Vault, Said, Shown, **many))
    whole.mount("/nameless", create_fastapi_app(Nameless, Said, Shown))
    whole.mount("/pid", create_fastapi_app(Pid, Said, Shown, **many))
    whole.mount("/talk", create_fastapi_app(Talk, Said, Shown, **many))
    whole.mount("/point", create_fastapi_app(Point, Move, Shown, **many))
    whole.mount("/shop", create_fastapi_app(Shop, CallToolAction, CallToolObservation, **many))
    whole.mount("/single", create_fastapi_app(Vault, Said, Shown, max_concurrent_envs=1))
    whole.mount("/keyed", Keyed(create_fastapi_app(Vault, Said, Shown, **many)))
    return whole


if __name__ == "__main__":
    uvicorn.run(app(), host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
