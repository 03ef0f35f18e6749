"""Replays through the real trainer: a run is recorded, everything is stopped, and then replayed.

While it is replayed there is neither a sampler nor an env worker.
"""

import hashlib
from collections.abc import Generator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.one_process import OpenPlace, Site, in_process, on_rabbitmq, tiny_site
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

import warren
from warren.streams.export import export
from warren_schemas.config import TrainConfig
from warren_schemas.events import StepCompleted
from warren_up.recipe import guess_config

pytestmark = [pytest.mark.storm, several_waits]

N_SFT_STEPS = 60
"""Enough for episodes that are not all alike, so that there is something to learn."""


def small_config() -> TrainConfig:
    """The demo's recipe, in small, and without anything that a policy would have to play."""
    config = guess_config(steps=6).model_dump()
    config["sft"] |= {"steps": N_SFT_STEPS}
    config["algorithm"] |= {"group_size": 8, "groups_per_step": 4, "max_staleness": 3}
    config["limits"] |= {"stop_at_reward": None}
    config["checkpoint"] |= {"every_steps": 4}
    return TrainConfig.model_validate(config | {"evaluation": None})


@pytest.fixture(params=[pytest.param("in-process", marks=pytest.mark.thorough), "rabbitmq"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> OpenPlace:
    if request.param == "in-process":
        return lambda: in_process(tmp_path / "streams")
    rabbit: PrivateRabbit = request.getfixturevalue("own_rabbit")
    return lambda: on_rabbitmq(rabbit)


@pytest.fixture
def own_rabbit(tmp_path: Path) -> Generator[PrivateRabbit]:
    """A node of this test's own: it is killed between the recording and the replay."""
    folder = tmp_path / "rabbit"
    folder.mkdir()
    rabbit = PrivateRabbit(folder)
    yield rabbit
    rabbit.close()


@pytest.fixture
def site(tmp_path: Path, place: OpenPlace) -> Site:
    return tiny_site(tmp_path, place)


def weights_of(result: warren.RunResult) -> str:
    """A digest of the exact bits of the newest policy."""
    assert result.policy_url is not None
    files = sorted(Path(urlsplit(result.policy_url).path).glob("*.safetensors"))
    assert files
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


@pytest.mark.thorough
async def test_a_recording_replayed_twice_gives_the_same_bits(site: Site) -> None:
    """After a restart of everything; and another loss gives others, and tells how far off they are."""
    # A trainer for each: a model of full weights has its worker to itself, and the replay might
    # be the one that gets it while the run that it follows can't begin.
    async with site.running(site.gpu_worker, site.trainer, site.env_worker) as client:
        recorded = await client.train(small_config())
        live = await client.replay(recorded, small_config())  # while it is still going
        _, followed = await recorded.result(), await live.result()
        config = small_config()
        limits = config.limits.model_copy(update={"steps": 3})
        shorter = await client.train(config.model_copy(update={"seed": 5, "limits": limits}))
        await shorter.result()

    async with site.running(site.trainer) as client:
        replays = [await client.replay(recorded.id, small_config()) for _ in range(2)]
        first, second = [await replay.result() for replay in replays]
        other = small_config().model_dump(exclude={"source"})
        other["algorithm"]["loss"] = {"kind": "importance_sampling"}
        other["optimizer"]["learning_rate"] *= 5
        changed = await client.replay(recorded.id, other)
        third = await changed.result()
        early = {"max_version": N_SFT_STEPS + 3, "environments": ["guess"]}
        both = [
            await client.replay(recorded, small_config(), also=[shorter], where=early)
            for _ in range(2)
        ]
        filtered = [await replay.result() for replay in both]
        steps = [event.body async for event in changed.events()]
        n_read = len([view async for view in (await client.run(recorded.id)).trajectories()])

    assert weights_of(first) == weights_of(second) == weights_of(followed)
    assert weights_of(third) != weights_of(first)
    assert weights_of(filtered[0]) == weights_of(filtered[1]) != weights_of(first)
    assert filtered[0].updates > 0
    assert first.updates == second.updates == followed.updates > 0
    assert first.episodes == N_SFT_STEPS * 32 + 6 * 32
    assert n_read >= first.episodes
    trained = [b.metrics for b in steps if isinstance(b, StepCompleted) and b.phase == "training"]
    off_policy = [m for m in trained if "policy/kl_k3" in m]
    assert {"policy/ratio_mean", "policy/ratio_max", "policy/ess_frac"} <= set(off_policy[-1])
    assert off_policy[-1]["policy/kl_k3"] > off_policy[0]["policy/kl_k3"] >= 0.0
    assert "stale/lag_mean" not in trained[-1]


async def test_a_shuffled_replay_that_is_cut_off_ends_as_one_that_is_not(site: Site) -> None:
    """Gateway, trainer and broker die together in its second epoch."""
    short = small_config().model_dump(exclude={"source"})
    short["sft"]["steps"], short["limits"]["steps"] = 10, 3
    async with site.running(site.gpu_worker, site.env_worker) as client:
        recorded = await client.train(short)
        with pytest.raises(warren.ConfigurationError, match="needs all of a recording"):
            await client.replay(recorded, short, epochs=2)
        with pytest.raises(warren.ConfigurationError, match="needs all of a recording"):
            await client.replay(recorded, short, shuffle_window=5)
        await recorded.result()

    short["limits"]["steps"] = 6
    asked: dict[str, Any] = {"epochs": 2, "shuffle_window": 5}
    async with site.running(site.trainer) as client:
        calm = await (await client.replay(recorded.id, short, **asked)).result()
        plain = await (await client.replay(recorded.id, short, epochs=2)).result()
        cut_off = await client.replay(recorded.id, short, **asked)
        async for event in cut_off.events():
            body = event.body
            if isinstance(body, StepCompleted) and body.phase == "training" and body.step >= 4:
                break
    async with site.running(site.trainer) as client:
        again = await (await client.run(cut_off.id)).result()

    assert weights_of(again) == weights_of(calm) != weights_of(plain)
    assert calm.updates == again.updates > 3


@pytest.mark.thorough
async def test_parity_row_58_an_archive_and_an_export_give_the_weights_of_the_stream(
    site: Site, tmp_path: Path
) -> None:
    short = small_config().model_dump(exclude={"source"})
    short["sft"]["steps"], short["limits"]["steps"] = 10, 3
    short["retention"] |= {"archive": "parquet"}
    async with site.running(site.gpu_worker, site.env_worker) as client:
        recorded = await client.train(short)
        await recorded.result()

    async with site.running(site.trainer) as client:
        handle = await client.run(recorded.id)
        await export(handle.trajectories(), tmp_path / "all.jsonl")
        dataset = await client.datasets.upload(tmp_path / "all.jsonl", "monday")
        results = [
            await (await client.replay(recorded.id, short)).result(),
            await (await client.replay(recorded.id, short, from_archive=True)).result(),
            await (await client.replay(dataset, short)).result(),
        ]
    weights = [weights_of(result) for result in results]
    assert weights[0] == weights[1] == weights[2]
    assert results[0].updates > 0
