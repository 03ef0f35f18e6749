"""A client's model behind two gateways on one PostgreSQL: either takes its ops and tells what came of them."""

import asyncio
from pathlib import Path

import aiohttp
from tests.support.one_process import in_process, tiny_site
from tests.support.patience import PATIENCE_S
from tests.system.gateway.test_replicas import serving

from warren_broker.memory import open_hub
from warren_gateway.access.key import Key
from warren_schemas.http import FutureDone
from warren_schemas.http.trainable import FutureAnswer, FutureView, TrainableView

UPDATE = {
    "kind": "forward_backward",
    "loss": {"kind": "cross_entropy"},
    "data": [{"ids": [3, 4, 5, 6]}],
}
STEP = {"kind": "optim_step", "learning_rate": 0.001}
N_STEPS = 4


async def ask(gateway: aiohttp.ClientSession, model: str, sequence: int) -> str:
    op = STEP if sequence % 2 == 0 else UPDATE
    body = {"op": op, "sequence": sequence}
    async with gateway.post(f"/v1/trainable/{model}/ops", json=body) as response:
        return FutureView.model_validate_json(await response.read()).future


async def outcome(gateway: aiohttp.ClientSession, future: str) -> FutureDone:
    """Asked once: whoever waits is woken, wherever the model is driven."""
    async with gateway.get(f"/v1/futures/{future}?wait_s=60") as response:
        told = FutureAnswer.model_validate_json(await response.read()).outcome
    assert isinstance(told, FutureDone)
    return told


async def test_either_gateway_takes_ops_and_tells_what_came_of_them(
    private_postgres: str, tmp_path: Path
) -> None:
    key, site = Key.new(), tiny_site(tmp_path, lambda: in_process(tmp_path))
    async with (
        open_hub() as hub,
        serving(hub, private_postgres, tmp_path / "one", key) as one,
        serving(hub, private_postgres, tmp_path / "two", key) as two,
        asyncio.TaskGroup() as tasks,
    ):
        trainer = tasks.create_task(site.trainer(hub.client("trainer")))
        async with one.post("/v1/trainable", json={"base_model": "warren/tiny"}) as response:
            model = TrainableView.model_validate_json(await response.read()).id
        first = await ask(one, model, 1)
        async with asyncio.timeout(PATIENCE_S):
            await outcome(two, first)
            sequences = range(2 * N_STEPS, 1, -1)  # the last one first, each at the other gateway
            asked = [await ask((one, two)[s % 2], model, s) for s in sequences]
            told = await asyncio.gather(
                *(outcome((two, one)[s % 2], f) for s, f in zip(sequences, asked, strict=True))
            )
        assert [done.version for done in told] == [s // 2 for s in sequences]
        trainer.cancel()
