"""A service with two users and an admin: processes that all tests of a store share.

Two GPU workers with room for two LoRA models each. Users type commands on machines that have the SDK alone.
"""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from sqlalchemy import NullPool
from sqlmodel import Session, col, create_engine, select
from tests.support.deployment import Site, connected
from tests.support.patience import PATIENCE_S
from tests.support.processes import start_program
from tests.support.small_install import SMALL_WARREN

import warren
from warren import Client, Run
from warren_gateway.store.tables import Model
from warren_schemas.events import RunState

MODELS_PER_WORKER = 2
N_WORKERS = 2
ROOM = N_WORKERS * MODELS_PER_WORKER
FOR_LONG = 1_000_000


def job(name: str, steps: int = 2, **changes: object) -> dict[str, object]:
    """A run on the tiny model: half a second where the machine has nothing else to do."""
    base: dict[str, object] = {
        "name": name,
        "model": {"base": "warren/tiny"},
        "environments": [{"name": "chance"}],
        "algorithm": {"group_size": 4, "groups_per_step": 2},
        "evaluation": {"before": False, "episodes": 8},
        "limits": {"steps": steps},
    }
    return base | changes


def full(name: str, steps: int = 2) -> dict[str, object]:
    return job(name, steps, model={"base": "warren/tiny", "update": {"kind": "full"}})


@dataclass
class User:
    """Somebody with a key and a laptop."""

    name: str
    url: str
    key: str
    folder: Path

    def client(self) -> Client:
        return warren.connect(self.url, api_key=self.key)

    async def type(self, *words: str, code: int = 0) -> str:
        """What the command shows."""
        mine = {"WARREN_URL": self.url, "WARREN_API_KEY": self.key, "WARREN_HOME": str(self.folder)}
        mine |= {"COLUMNS": "200"}
        clean = {k: v for k, v in os.environ.items() if not k.startswith("WARREN_")}
        process = await start_program(
            *SMALL_WARREN, *words, environment=clean | mine, folder=self.folder,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        async with asyncio.timeout(PATIENCE_S):
            out, _ = await process.communicate()
        assert process.returncode == code, f"{words}: {process.returncode}\n{out.decode()}"
        return out.decode()

    async def read(self, *words: str) -> dict[str, object]:
        """The JSON that it prints."""
        return json.loads(await self.type(*words, "--json"))


@dataclass
class Scene:
    site: Site
    folder: Path
    users: dict[str, User] = field(default_factory=dict[str, User])

    @property
    def admin(self) -> User:
        key = (self.site.home / "api-key").read_text().strip()
        return User("local", self.site.url, key, self.folder)

    async def begin(self) -> None:
        await self.site.start_gateway()
        for name in ("gpu-1", "gpu-2"):
            self.start_gpu_worker(name)
        self.site.start("env-1", "env-worker", "--env", "tests.support.chance:Chance")
        async with connected(self.site) as client:
            await until(lambda: self._are_all_there(client))

    def start_gpu_worker(self, name: str) -> None:
        room = ("--max-models", str(MODELS_PER_WORKER))
        self.site.start(name, "gpu-worker", "--base-model", "warren/tiny", *room)

    async def _are_all_there(self, client: Client) -> bool:
        offered = [w.offers for w in await client.workers()]
        return sum(bool(offers) for offers in offered) >= 5

    def n_job_messages(self, runs: Sequence[Run]) -> int:
        """Sent for these runs: each is for an epoch of its own. Blocks."""
        url = self.site.store or f"sqlite:///{self.site.home / 'warren.db'}"
        ours = select(Model.epoch).where(col(Model.run_id).in_([run.id for run in runs]))
        with Session(create_engine(url, poolclass=NullPool)) as session:
            return sum(session.exec(ours))

    async def new_user(self, name: str) -> User:
        added = await self.admin.read("users", "add", name)
        first = cast("dict[str, str]", added["first_key"])
        folder = self.folder / name
        folder.mkdir()
        self.users[name] = User(name, self.site.url, first["key"], folder)
        return self.users[name]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Other processes have no event for us."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.1)


async def until_state(run: Run, *states: RunState) -> Run:
    async with asyncio.timeout(PATIENCE_S):
        while run.view.state not in states:
            await asyncio.sleep(0.1)
            await run.refresh()
            assert not run.view.state.is_final or run.view.state in states, run.view.error
    return run
