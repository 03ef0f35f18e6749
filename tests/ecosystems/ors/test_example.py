"""A config of OpenReward's training example, taken as it is, on a real server of `openreward` with its environment."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from tests.ecosystems.ors.serving import call, serving
from tests.ecosystems.ors_server.serving import client_program
from tests.ecosystems.real_server import ROOT, RealServer, saying
from tests.ecosystems.whole_run import lengthen
from tests.support.one_process import Site, in_process, tiny_site
from tests.support.patience import PATIENCE_S, several_waits

import warren.testing
from warren.configs import read_openreward
from warren_env_worker.environments.ors.environment import Ors
from warren_env_worker.permissions.permissions import KeyGrant, Permissions, acting
from warren_schemas.config import TrainConfig
from warren_schemas.config_files.openreward.translation import HOSTED_URL, translated
from warren_schemas.episode import Completed
from warren_schemas.http import TrajectoryView

pytestmark = [pytest.mark.ecosystem_all, pytest.mark.server]
EXAMPLE = ROOT / "tests" / "unit" / "schemas" / "openreward" / "example.yaml"
CLIENT = str(Path(__file__).with_name("client_whodunit.py"))
OPENREWARDS = "WARREN_SECRET_OPENREWARD_API_KEY"
KEY, LICENSE = "WARREN_SECRET_OTHER_KEY", "of-the-house"
SMALL = (
    "model.base=warren/tiny",
    "sampling.max_tokens=8",
    "sampling.max_total_tokens=4096",
    "algorithm.groups_per_step=4",
    "limits.steps=1",
)
"""All that is not the example's: its model is too large for this machine, and its run has no end."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[RealServer]:
    with serving("openreward", tmp_path_factory.mktemp("whodunit"), "whodunit") as started:
        yield started


def example(server: RealServer) -> TrainConfig:
    return read_openreward(EXAMPLE, SMALL, url=server.url)[0]


async def typed(server: RealServer, site: Site) -> tuple[str, list[str]]:
    """What `warren train` prints, and what it says on standard error."""
    named = {"WARREN_URL": site.url, "WARREN_HOME": str(site.home)}
    settings = (word for each in SMALL for word in ("--set", each))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "warren", "train", str(EXAMPLE), "--from", "openreward"),
        *("--detach", *settings),
        env=os.environ | named | {"OPENREWARD_SESSION_URL": server.url},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, told = await process.communicate()
    assert process.returncode == 0, told.decode()
    return printed.decode().strip(), told.decode().splitlines()


def question(view: TrajectoryView) -> str:
    return next(m.content for m in view.trajectory.transcript.messages if m.role == "user")


@pytest.mark.shows("ORS client", "tasks", "tools", "secrets")
def test_an_episode_of_the_example(server: RealServer) -> None:
    config: Any = example(server).environments[0].config
    with acting(Permissions(is_trusted=True, keys=(KeyGrant(KEY, LICENSE, None),))):
        environment = Ors(**config, patience_s=PATIENCE_S)
    policy = saying(call("question", name="Q3"), "Q3")
    episode = warren.testing.play(environment, policy, index=3)
    assert episode.messages[1].content == "Who did it in train-3?"
    assert [result.reward for result in episode.results] == [1.0, 9.0]
    assert episode.results[-1].done


@pytest.mark.shows("ORS client", "secrets")
async def test_openreward_is_given_the_secrets_that_its_own_client_gives(
    server: RealServer,
) -> None:
    """Both play here with the key; what goes to OpenReward's own address is compared."""
    theirs = client_program(ROOT / ".venv-openreward" / "bin" / "python", CLIENT, server.url)
    assert theirs["played"] == [9.0, True]
    named = {name: None for name in theirs["sent"] if name not in ("api_key", "OPENREWARD_API_KEY")}
    environments = {"A/B": {"splits": {"train": {"shuffle": False}}, "num_rollouts": 2}}
    written: Any = {
        "model_name": "m",
        "batch_size": 1,
        "environments": environments,
        "secrets": named,
    }
    config: Any = translated(written, HOSTED_URL).config["environments"][0]["config"]
    variables = set(config["secrets"].values())
    values = {each: "key" if each.endswith("OPENREWARD_API_KEY") else "value" for each in variables}
    grants = tuple(KeyGrant(variable, value, None) for variable, value in values.items())
    with acting(Permissions(is_trusted=True, keys=grants)):
        header = Ors(**config).secrets.headers["X-Secrets"]
    assert json.loads(base64.b64decode(header)) == theirs["sent"]


@pytest.mark.shows("ORS client", "tasks", "tools", "secrets")
def test_an_environment_that_is_given_the_key(server: RealServer) -> None:
    config: Any = dict(read_openreward(EXAMPLE, SMALL)[0].environments[0].config)
    config["url"] = server.url
    grants = (KeyGrant(KEY, LICENSE, None), KeyGrant(OPENREWARDS, "key", None))
    with acting(Permissions(is_trusted=True, keys=grants)):
        environment = Ors(**config, patience_s=PATIENCE_S)
    episode = warren.testing.play(environment, saying("Q3"), index=3)
    assert [result.reward for result in episode.results] == [9.0]


@several_waits
@pytest.mark.shows("ORS client", "tasks", "secrets")
async def test_the_example_trains(
    server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command that its users type. Whole groups of both splits, with rewards by its rules; the split that is not shuffled begins with its first tasks."""
    monkeypatch.setenv(KEY, LICENSE)
    assert len(await Ors(server.url, "whodunit", patience_s=PATIENCE_S).tasks("train")) == 30
    site = tiny_site(tmp_path / "home", lambda: in_process(tmp_path / "streams"))
    lengthen(Path(site.gpu.base_models["warren/tiny"]))
    async with site.running(site.gpu_worker, site.env_worker) as client:
        submitted, told = await typed(server, site)
        run = await client.run(submitted)
        await run.result()
        played = [view async for view in run.trajectories(all_attempts=True)]
    assert all(line.startswith("# ") for line in told), told
    asked_at = f"# environments: they are asked at {server.url}; OPENREWARD_SESSION_URL names another server"
    assert asked_at in told
    assert "# secrets: env workers need WARREN_SECRET_OTHER_KEY in their environment" in told
    outcomes = [view.trajectory.outcome for view in played]
    assert {type(outcome) for outcome in outcomes} == {Completed}, outcomes
    asked = [question(view) for view in played if view.fate == "trained"]
    splits = {"train", "validation"}
    assert {text.split()[-1].partition("-")[0] for text in asked} == splits
    assert {asked.count(text) for text in asked} == {16}
    numbers = {int(text.rpartition("-")[2][:-1]) for text in asked if "validation" in text}
    assert numbers == set(range(len(numbers)))
    rewards = {outcome.reward for outcome in outcomes if isinstance(outcome, Completed)}
    assert len(rewards) > 1
    assert all(0 <= reward <= 1 for reward in rewards)
