"""Recorded episodes scored anew, by real processes: the weights are those of a recording that has these rewards in it.

Who is killed in the middle of it costs nothing, the broker included; remote env workers score like others.
"""

import asyncio
import hashlib
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from tests.support.deployment import Site, connected, store_of
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.private_rabbit import PrivateRabbit, running_rabbit
from tests.support.processes import wait_until

import warren
from warren.streams.export import export
from warren_up.recipe import guess_config

pytestmark = [pytest.mark.storm, pytest.mark.server, several_waits]

PRICED = ("env-worker", "--only", "--env", "tests.support.scored_environments:Priced")
TURNED_ROUND = {"exact": 0.0, "missed": 1.0}
NO_KEYS: Mapping[str, object] = {}
N_SFT_STEPS = 60
"""Enough for episodes that are not all alike, so that there is something to learn."""


def config(environment: Mapping[str, object] = NO_KEYS, /, **prices: object) -> dict[str, Any]:
    found = guess_config(steps=3).model_dump(exclude={"source", "evaluation"})
    found["environments"] = [{"name": "priced", "config": prices, **environment}]
    found["sft"] |= {"steps": N_SFT_STEPS}
    found["algorithm"] |= {"group_size": 8, "groups_per_step": 4, "max_staleness": 3}
    found["limits"] |= {"stop_at_reward": None}
    return found


@pytest.fixture
def rabbit() -> Generator[PrivateRabbit]:
    with running_rabbit() as node:
        yield node


@pytest.fixture(params=["sqlite"])
def site(tmp_path: Path, rabbit: PrivateRabbit, request: pytest.FixtureRequest) -> Generator[Site]:
    site = Site(tmp_path, rabbit.url, store_of(request))
    try:
        yield site
    finally:
        site.stop()


def weights_of(result: warren.RunResult) -> str:
    """A digest of the exact bits of the newest policy."""
    assert result.policy_url is not None
    files = sorted(Path(urlsplit(result.policy_url).path).glob("*.safetensors"))
    assert files
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


async def recorded(site: Site) -> str:
    """A run that is over; what was needed for it goes on."""
    await site.start_gateway()
    site.start("gpu", "gpu-worker", "--base-model", "warren/tiny")
    site.start("env-1", *PRICED)
    async with connected(site) as client:
        run = await client.train(config())
        await run.result()
    return run.id


async def with_rewards_turned_round(
    client: warren.Client, run: str, folder: Path
) -> warren.Dataset:
    """The recording, as somebody changed it who knows the prices."""
    handle = await client.run(run)
    await export(handle.trajectories(), folder / "all.jsonl")
    rows = [orjson.loads(line) for line in (folder / "all.jsonl").read_bytes().splitlines()]
    for row in rows:
        row["reward"] = {1.0: 0.0, 0.0: 1.0}.get(row["reward"], row["reward"])
    (folder / "turned.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return await client.datasets.upload(folder / "turned.jsonl", "turned")


@pytest.mark.thorough
async def test_the_weights_are_those_of_a_recording_with_these_rewards(
    site: Site, tmp_path: Path
) -> None:
    run = await recorded(site)
    async with connected(site) as client:
        plain = await (await client.replay(run, config())).result()
        same = await (await client.replay(run, config(), score=True)).result()
        turned = await (await client.replay(run, config(**TURNED_ROUND), score=True)).result()
        by_hand = await with_rewards_turned_round(client, run, tmp_path)
        expected = await (await client.replay(by_hand, config())).result()

        other = {**config(), "environments": [{"name": "guess"}]}
        with pytest.raises(warren.ConfigurationError, match="its episodes are of priced, too"):
            await client.replay(run, other, score=True)
    assert weights_of(same) == weights_of(plain)
    assert weights_of(turned) == weights_of(expected) != weights_of(plain)
    assert plain.updates > 0
    assert turned.updates > 0
    assert same.episodes == plain.episodes
    assert not turned.failures


async def calm_and_held(
    client: warren.Client, site: Site, run: str, hold: Path, **environment: object
) -> tuple[warren.RunResult, warren.Run]:
    """What an undisturbed replay ends with; and another that stands still in the middle of its scoring."""
    calm = await client.replay(run, config(environment, **TURNED_ROUND), score=True)
    result = await calm.result()
    await asyncio.to_thread(hold.touch)
    held = config(environment, **TURNED_ROUND, hold=str(hold))
    replay = await client.replay(run, held, score=True)
    await asyncio.to_thread(
        wait_until, hold.with_suffix(".reached").exists, site.processes["gateway"], deadline_s=PATIENCE_S,
        log_path=site.log("gateway"),
    )  # fmt: skip
    return result, replay


@pytest.mark.thorough
@pytest.mark.parametrize(
    "victims",
    [
        ("env-1",),
        ("gateway",),
        ("gateway", "env-1"),
    ],
)
async def test_whoever_is_killed_in_the_middle_costs_nothing(
    site: Site, tmp_path: Path, victims: tuple[str, ...]
) -> None:
    run, hold = await recorded(site), tmp_path / "hold"
    async with connected(site) as client:
        calm, replay = await calm_and_held(client, site, run, hold)
        for name in victims:
            await site.kill(name)
        hold.unlink()
        if "gateway" in victims:
            await site.start_gateway()
        site.start_missing()
    async with connected(site) as client:
        result = await (await client.run(replay.id)).result()
    assert weights_of(result) == weights_of(calm)
    assert (result.episodes, result.failures) == (calm.episodes, {})


@pytest.mark.parametrize("site", ["postgres"], indirect=True)
async def test_remote_env_workers_score_and_a_broker_that_is_killed_costs_nothing(
    site: Site, rabbit: PrivateRabbit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers reach the gateway by WebSocket, and know nothing of a broker; the store is PostgreSQL."""
    run, hold, laptop = await recorded(site), tmp_path / "hold", tmp_path / "laptop"
    laptop.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    key = (site.home / "api-key").read_text().strip()
    site.start_remote("laptop", *PRICED[1:], api_key=key, folder=laptop)
    await site.kill("env-1")
    async with connected(site) as client:
        calm, replay = await calm_and_held(client, site, run, hold, workers="own")
        await asyncio.to_thread(rabbit.kill)
        hold.unlink()
        await asyncio.to_thread(rabbit.start)
        result = await replay.result()
    assert weights_of(result) == weights_of(calm)
    assert (result.episodes, result.failures) == (calm.episodes, {})
