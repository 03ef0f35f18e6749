"""Two users' pipelined loops on RabbitMQ, while the GPU worker and then the gateway are killed: both loops
end by themselves, with the weights of loops that nobody disturbed, to the last bit."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import numpy as np
import pytest
from tests.support.deployment import Site, connected
from tests.support.patience import several_waits
from tests.support.private_rabbit import PrivateRabbit

import warren

N_STEPS = 14
KILLS = {4: "gpu", 9: "gateway"}
"""Before which steps of the first loop."""


@pytest.fixture
async def site(tmp_path: Path, private_rabbit: PrivateRabbit) -> AsyncGenerator[Site]:
    site = Site(tmp_path, private_rabbit.url, None)
    await site.start_gateway()
    start_gpu(site)
    yield site
    site.stop()


def start_gpu(site: Site) -> None:
    site.start("gpu", "gpu-worker", "--base-model", "warren/tiny", "--device", "cpu")


@pytest.mark.storm
@several_waits
async def test_loops_outlive_what_is_killed_and_end_with_the_same_weights(site: Site) -> None:
    async with connected(site) as admin:
        bobs_key = (await admin.access.add_user("bob")).first_key.key
        async with connected(site, bobs_key) as bob:
            calm = [await loop(client, seed) for client, seed in ((admin, 1), (bob, 2))]
            assert calm[0] != calm[1]
            disturbed = await asyncio.gather(loop(admin, 1, site), loop(bob, 2))
            assert disturbed == calm
            assert {view.owner for view in await bob.models()} == {"bob"}
            [other, *_] = [view for view in await admin.models() if view.owner != "bob"]
            with pytest.raises(warren.NotFound):
                await bob.model(other.id)


async def loop(client: warren.Client, seed: int, disturbed: Site | None = None) -> str:
    """Train with one step always ahead; the digests of what came out."""
    rng = np.random.default_rng(seed)
    update = warren.LoraUpdate(rank=4)
    model = await client.create_model("warren/tiny", update=update, seed=seed, deterministic=True)
    ahead: list[warren.Future] = []
    for step in range(N_STEPS):
        if disturbed is not None and step in KILLS:
            await kill(disturbed, KILLS[step])
        data = [warren.Datum(ids=rng.integers(3, 50, 16, dtype=np.int32)) for _ in range(4)]
        futures = [
            await model.forward_backward(data, warren.CrossEntropyLoss()),
            await model.optim_step(1e-2),
        ]
        for future in ahead:
            assert (await future).version <= step
        ahead = futures
        if step == N_STEPS // 2:
            await model.save_state("half")
    saved = await (await model.save_state("end"))
    assert saved.version == N_STEPS
    url = next(kept.url for kept in (await model.kept()).checkpoints if kept.name == "end")
    await model.close()
    lines = (Path(url.removeprefix("file://")) / "SHA256SUMS").read_text().splitlines()
    return "\n".join(line for line in lines if line.endswith(".safetensors"))


async def kill(site: Site, name: str) -> None:
    await site.kill(name)
    if name == "gpu":
        start_gpu(site)
    else:
        await site.start_gateway()
