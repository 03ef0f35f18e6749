"""A tenant with a valid key attacks by every field of a config that can name something.

All programs serve in this process, on the in-process broker; their children are real. Beside the
attacks another tenant's runs go on, with a secret and a service that are bound to him.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.support.hosting import child_pids
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import several_waits
from tests.trust.table import ATTACKS, KEY, SECRET, Attack, Target, base, math

import warren
from warren.errors import WarrenError
from warren_broker.errors import NotAllowed
from warren_broker.port import Broker
from warren_broker.remote import open_remote
from warren_broker.topology import home, interact
from warren_env_worker.host.startup import EnvironmentUnusable
from warren_env_worker.service import serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_gateway.auth import ApiKeys
from warren_gateway.auth import Key as ApiKey
from warren_gateway.store.store import Store
from warren_schemas.config import TrainConfig
from warren_schemas.operator_policy import OperatorPolicy

pytestmark = several_waits

PASSWORD = "of-the-broker-0123456789"


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
class Scene:
    victim: warren.Client
    mallory: warren.Client
    url: str
    key: str
    """Mallory's."""
    target: Target
    listener: Listener
    own: Listener
    judge: Listener
    folder: Path


@asynccontextmanager
async def set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[Scene]:
    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setenv("WARREN_BROKER_URL", f"amqp://warren:{PASSWORD}@rabbit")
    data = tmp_path / "data"
    data.mkdir()
    question = json.dumps({"problem": "1+1?", "answer": "2"})
    for path in (data / "in.jsonl", data / "train.jsonl", tmp_path / "outside.jsonl"):
        path.write_text(question)
    judge, own, listener = Listener(), Listener(), Listener()
    site = tiny_site(tmp_path / "site", partial(in_process, tmp_path / "streams"))
    async with (
        judge.listening() as judge_url,
        own.listening() as own_url,
        listener.listening() as listener_url,
    ):
        policy = OperatorPolicy.model_validate(
            {
                "secrets": {"JUDGE": {"owners": ["local"], "urls": [judge_url]}},
                "services": [
                    {"url": judge_url, "owners": ["local"], "private": True},
                    {"url": own_url, "owners": ["mallory"], "private": True},
                ],
                "data_root": str(data),
            }
        )

        async def env_worker(broker: Broker) -> None:
            await serve_env_worker(broker, EnvWorkerSettings(), policy=policy)

        async with site.running(site.gpu_worker, env_worker) as victim:
            store = await Store.open(f"sqlite:///{site.home / 'warren.db'}")
            key = ApiKey.new()
            await ApiKeys(store).add(key, "mallory")
            await store.close()
            run = await victim.train(victims_config(judge_url))
            outside = str(tmp_path / "outside.jsonl")
            target = Target(run.id, judge_url, own_url, listener_url, outside)
            async with warren.connect(site.url, str(key)) as mallory:
                yield Scene(
                    victim, mallory, site.url, str(key), target, listener, own, judge, tmp_path
                )


def victims_config(judge: str, steps: int = 3) -> TrainConfig:
    reward = {"kind": "service", "url": judge, "key_variable": KEY}
    config = math("math", rewards=[reward])
    config["limits"] = {"steps": steps}
    return TrainConfig.model_validate(config)


async def told(scene: Scene, attack: Attack) -> str:
    """What the attacker hears of it."""
    config = attack.config(scene.target)
    try:
        run = await scene.mallory.train(config)
        await run.result()
    except WarrenError as error:
        return " ".join([str(error), *error.details])
    return "it went through"


async def test_no_field_of_a_config_reaches_what_is_not_its_owners(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with set_up(tmp_path, monkeypatch) as scene:
        await attack_by_http(scene)
        await attack_by_cli(scene)
        await attack_by_websocket(scene)


async def attack_by_http(scene: Scene) -> None:
    began_s = time.monotonic()
    victims = await scene.victim.run(scene.target.run)
    refusals = dict(
        zip(
            ATTACKS,
            await asyncio.gather(*(told(scene, attack) for attack in ATTACKS.values())),
            strict=True,
        )
    )
    wrong = {f: said for f, said in refusals.items() if ATTACKS[f].refusal not in said}
    assert wrong == {}
    heard = json.dumps(refusals)
    assert SECRET not in heard
    assert PASSWORD not in heard
    assert scene.listener.keys == []
    assert scene.own.keys == []

    await victims.result()
    print(f"the other tenant's run took {time.monotonic() - began_s:.1f} s beside the attacks")
    assert set(scene.judge.keys) == {f"Bearer {SECRET}"}

    pids = child_pids()
    assert pids
    for pid in pids:  # no child was told what the attacks named
        variables = variables_of(pid)
        assert SECRET not in variables
        assert PASSWORD not in variables


def variables_of(pid: int) -> str:
    return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")


async def attack_by_cli(scene: Scene) -> None:
    for name in ("secrets", "environments.config.math.rewards.function"):
        said = await by_cli(scene, ATTACKS[name])
        assert ATTACKS[name].refusal in " ".join(said.split())
        assert SECRET not in said


async def by_cli(scene: Scene, attack: Attack) -> str:
    """What `warren train` prints."""
    path = scene.folder / "attack.yaml"
    path.write_text(json.dumps(attack.config(scene.target)))
    variables = {
        **os.environ,
        "WARREN_URL": scene.url,
        "WARREN_API_KEY": scene.key,
        "COLUMNS": "500",
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warren", "train", str(path)),
        env=variables,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await process.communicate()
    assert process.returncode
    return printed.decode()


async def attack_by_websocket(scene: Scene) -> None:
    """A remote env worker can't take the gateways' own names, nor the other tenant's."""
    async with open_remote(scene.url, api_key=scene.key, worker="env_1") as broker:
        reserved = [interact("warren/chat", "mallory"), home("env_1", "Warren/chat", "mallory")]
        for address in (*reserved, interact("warren/chat"), interact("math", "local")):
            with pytest.raises(NotAllowed):
                await broker.declare(address)
        settings = EnvWorkerSettings(
            environments=("warren/chat=tests.support.environments:Letters",), only_named=True
        )
        with pytest.raises(EnvironmentUnusable, match="Warren's"), contextlib.suppress(NotAllowed):
            await serve_env_worker(broker, settings, owner="mallory")


async def test_the_least_config_itself_is_no_attack() -> None:
    assert TrainConfig.model_validate(base())
