"""A tenant with a valid key attacks a deployment by every field of a config, and by WebSocket.

Beside it another tenant's run goes on, with a secret and a service that are bound to him.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.trust.attack import KEY, SECRET, Attack, Target
from tests.trust.table import ATTACKS, math

import warren
from warren.errors import WarrenError
from warren_broker.errors import NotAllowed
from warren_broker.remote import open_remote
from warren_broker.topology import compare, home, interact
from warren_env_worker.host.startup import EnvironmentUnusable
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_gateway.access.callers import Callers
from warren_gateway.access.key import Key as ApiKey
from warren_gateway.access.keys import ApiKeys
from warren_gateway.store.store import Store
from warren_schemas.config import TrainConfig

AT_ONCE = 2
"""Commands that run beside each other."""


@dataclass
class Listener:
    """A service that remembers what it was asked and with which keys."""

    keys: list[str | None] = field(default_factory=list[str | None])

    async def answer(self, request: web.Request) -> web.Response:
        self.keys.append(request.headers.get("Authorization"))
        n_episodes = len((await request.json())["episodes"])
        return web.json_response({"rewards": [1.0] * n_episodes})

    @asynccontextmanager
    async def listening(self) -> AsyncGenerator[str]:
        app = web.Application()
        app.router.add_post("/", self.answer)
        async with TestServer(app) as server:
            yield str(server.make_url("/"))


@dataclass
class Services:
    """The victim's judge, one that the attacker may ask, and one that nobody may; and files."""

    judge: Listener
    own: Listener
    listener: Listener
    judge_url: str
    own_url: str
    listener_url: str
    folder: Path

    @property
    def policy(self) -> dict[str, Any]:
        """The operator's."""
        return {
            "secrets": {"JUDGE": {"owners": ["local"], "urls": [self.judge_url]}},
            "services": [
                {"url": self.judge_url, "owners": ["local"], "private": True},
                {"url": self.own_url, "owners": ["mallory"], "private": True},
            ],
            "functions": ["listed_tasks:*"],
            "data_root": str(self.folder / "data"),
        }


@asynccontextmanager
async def open_services(folder: Path) -> AsyncGenerator[Services]:
    (folder / "data").mkdir()
    question = json.dumps({"problem": "1+1?", "answer": "2"})
    for name in ("data/in.jsonl", "data/train.jsonl", "outside.jsonl"):
        (folder / name).write_text(question)
    judge, own, listener = Listener(), Listener(), Listener()
    async with (
        judge.listening() as judge_url,
        own.listening() as own_url,
        listener.listening() as listener_url,
    ):
        yield Services(judge, own, listener, judge_url, own_url, listener_url, folder)


@dataclass
class Scene:
    victim: warren.Client
    mallory: warren.Client
    url: str
    key: str
    """Mallory's."""
    target: Target
    services: Services
    pids: Callable[[], Sequence[int]]
    """Processes that may not show what is hidden."""
    hidden: Sequence[str]


@asynccontextmanager
async def open_scene(
    victim: warren.Client,
    services: Services,
    *,
    url: str,
    home: Path,
    pids: Callable[[], Sequence[int]],
    hidden: Sequence[str],
) -> AsyncGenerator[Scene]:
    """Mallory gets a key, and the victim a run."""
    store = await Store.open(f"sqlite:///{home / 'warren.db'}")
    key = ApiKey.new()
    await ApiKeys(store, Callers(store)).add(key, "mallory")
    await store.close()
    run = await victim.train(victims_config(services.judge_url))
    target = Target(
        run.id,
        services.judge_url,
        services.own_url,
        services.listener_url,
        str(services.folder / "outside.jsonl"),
    )
    async with warren.connect(url, str(key)) as mallory:
        yield Scene(victim, mallory, url, str(key), target, services, pids, hidden)


def victims_config(judge: str, steps: int = 3) -> TrainConfig:
    reward = {"kind": "service", "url": judge, "key_variable": KEY}
    config = math("math")
    config["environments"][0]["rewards"] = [reward]
    config["limits"] = {"steps": steps}
    return TrainConfig.model_validate(config)


async def attack(scene: Scene) -> None:
    """In every way; none may succeed, and the victim's run ends as it should."""
    await attack_by_sdk(scene)
    await attack_by_cli(scene)


async def attack_by_sdk(scene: Scene) -> None:
    await attack_by_http(scene)
    await attack_by_websocket(scene)


async def attack_by_http(scene: Scene) -> None:
    began_s, services = time.monotonic(), scene.services
    victims = await scene.victim.run(scene.target.run)
    heard = await asyncio.gather(*(told(scene, attack) for attack in ATTACKS.values()))
    refusals = dict(zip(ATTACKS, heard, strict=True))
    wrong = {f: said for f, said in refusals.items() if ATTACKS[f].refusal not in said}
    assert not wrong, wrong
    for hidden in scene.hidden:
        assert hidden not in json.dumps(refusals)
    assert services.listener.keys == []
    assert services.own.keys == []
    no_process_shows_it(scene)
    await victims.result()
    print(f"the other tenant's run took {time.monotonic() - began_s:.1f} s beside the attacks")
    assert set(services.judge.keys) == {f"Bearer {SECRET}"}


def no_process_shows_it(scene: Scene) -> None:
    """Neither on its command line nor in the variables that it was started with."""
    pids = scene.pids()
    assert pids
    for pid in pids:
        shown = shown_by_proc(pid)
        for hidden in scene.hidden:
            assert hidden not in shown


def shown_by_proc(pid: int) -> str:
    """Nothing for what has ended meanwhile."""
    shown = b""
    for name in ("cmdline", "environ"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            shown += Path(f"/proc/{pid}/{name}").read_bytes()
    return shown.decode(errors="replace")


async def told(scene: Scene, attack: Attack) -> str:
    """What the attacker hears of it."""
    config = attack.config(scene.target)
    try:
        run = await scene.mallory.train(config)
        await run.result()
    except WarrenError as error:
        return " ".join([str(error), *error.details])
    return "it went through"


async def attack_by_cli(scene: Scene) -> None:
    """By every field as well."""
    free = asyncio.Semaphore(AT_ONCE)

    async def said(name: str) -> str:
        async with free:
            return " ".join((await by_cli(scene, name)).split())

    heard = await asyncio.gather(*(said(name) for name in ATTACKS))
    printed = dict(zip(ATTACKS, heard, strict=True))
    wrong = {f: text for f, text in printed.items() if ATTACKS[f].refusal not in text}
    assert not wrong, wrong
    for hidden in scene.hidden:
        assert hidden not in json.dumps(printed)


async def by_cli(scene: Scene, name: str) -> str:
    """What `warren train` prints."""
    path = scene.services.folder / f"{name}.yaml"
    path.write_text(json.dumps(ATTACKS[name].config(scene.target)))
    own = {"WARREN_URL": scene.url, "WARREN_API_KEY": scene.key, "COLUMNS": "500"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warren", "train", str(path)),
        env=os.environ | own,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode
    return printed.decode()


async def attack_by_websocket(scene: Scene) -> None:
    """A remote env worker can't take the gateways' own names, nor the other tenant's."""
    async with open_remote(scene.url, api_key=scene.key, worker="env_1") as broker:
        reserved = [
            interact("warren/chat", "mallory"),
            compare("warren/chat", "mallory"),
            home("env_1", "Warren/chat", "mallory"),
        ]
        others = [interact("warren/chat"), interact("math", "local"), compare("math", "local")]
        for address in (*reserved, *others):
            with pytest.raises(NotAllowed):
                await broker.declare(address)
        settings = EnvWorkerSettings(
            environments=("warren/chat=tests.support.environments:Letters",), only_named=True
        )
        with pytest.raises(EnvironmentUnusable, match="Warren's"), contextlib.suppress(NotAllowed):
            await serve_env_worker(broker, settings, owner="mallory")
