"""Groups that an env worker takes from the broker to be compared: beside its episodes, and none is lost with it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp.test_utils import BaseTestServer
from tests.process.env_worker.test_comparisons import MEMBERS, RANK
from tests.support.fake_judge import FakeJudge, base_url, saying
from tests.support.interacting import RUN, endings, sampling, spec, start, start_all
from tests.support.patience import PATIENCE_S

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.inbox import receive
from warren_broker.memory import MemoryHub, open_hub
from warren_broker.port import Broker
from warren_broker.topology import compare, results
from warren_env_worker.service import COMPARE_PREFETCH, serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.config import GroupJudgeReward, GroupReward
from warren_schemas.envelope import Envelope
from warren_schemas.episode import Completed
from warren_schemas.group_scoring import GroupRewards, GroupScored, ScoreGroup
from warren_schemas.ids import EpisodeId, WorkerId
from warren_schemas.operator_policy import TRUSTING

LETTERS = ("tests.support.environments:Letters",)
RESULTS = results(spec().policy.model)


@asynccontextmanager
async def serving(hub: MemoryHub, worker: str) -> AsyncGenerator[None]:
    settings = EnvWorkerSettings(environments=LETTERS, only_named=True, worker=WorkerId(worker))
    client = hub.client(worker)
    task = asyncio.create_task(serve_env_worker(client, settings, policy=TRUSTING), name=worker)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        await client.close()


@asynccontextmanager
async def hanging_judge() -> AsyncGenerator[tuple[FakeJudge, GroupReward]]:
    """It answers nobody before it `goes_on`."""
    judge = FakeJudge(otherwise=saying("Ranking: 2 > 1 > 3"))
    judge.goes_on.clear()
    async with judge.served() as server:
        try:
            yield judge, _asking(server)
        finally:
            judge.goes_on.set()


def _asking(server: BaseTestServer) -> GroupReward:
    url = base_url(server)
    return GroupJudgeReward(
        url=url, model="m", prompt="{responses}", cache=0, in_flight=2 * COMPARE_PREFETCH
    )


async def ask(broker: Broker, name: str, part: GroupReward) -> None:
    queue = compare("letters")
    await broker.declare(queue, RESULTS)
    envelope = Envelope(run=RUN, episode=EpisodeId(name))
    asked = ScoreGroup(envelope=envelope, spec=spec(group_parts=(part,)), members=MEMBERS)
    await BatchPublisher(broker).send(queue, asked)


async def answers(broker: Broker, n: int) -> list[GroupScored]:
    answered: list[GroupScored] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        receive(broker, RESULTS, GroupScored, prefetch=8) as inbox,
    ):
        async for claims in inbox:
            for claim in claims:
                assert isinstance(claim.item.outcome, GroupRewards)
                answered.append(claim.item)
                claim.done()
            if len(answered) >= n:
                break
    return answered


async def is_asked(judge: FakeJudge) -> None:
    await asyncio.wait_for(judge.asked.acquire(), PATIENCE_S)


async def test_while_one_comparison_hangs_episodes_and_other_groups_go_on(tmp_path: Path) -> None:
    async with (
        open_hub(tmp_path) as hub,
        serving(hub, "env_1"),
        hanging_judge() as (judge, slow),
        sampling(broker := hub.client("test")),
    ):
        await ask(broker, "slow", slow)
        await is_asked(judge)
        await start_all(broker, [start("ep_1")])
        [ended] = await asyncio.wait_for(endings(broker, 1), PATIENCE_S)
        await ask(broker, "quick", RANK)
        quick = await answers(broker, 1)
        assert (judge.n_now, len(judge.bodies)) == (1, 1), "it hangs still"
        judge.goes_on.set()
        last = await answers(broker, 1)
    assert isinstance(ended.outcome, Completed)
    assert [each.envelope.episode for each in (*quick, *last)] == ["quick", "slow"]


async def test_as_many_are_compared_as_a_worker_takes_and_the_next_lies_where_another_finds_it(
    tmp_path: Path,
) -> None:
    async with open_hub(tmp_path) as hub, hanging_judge() as (judge, slow):
        broker = hub.client("test")
        async with serving(hub, "env_1"):
            for number in range(COMPARE_PREFETCH + 1):
                await ask(broker, f"group_{number}", slow)
            for _ in range(COMPARE_PREFETCH):
                await is_asked(judge)
            assert await broker.depth(compare("letters")) == 1
            async with serving(hub, "env_2"):
                await is_asked(judge)
                judge.goes_on.set()
                answered = await answers(broker, COMPARE_PREFETCH + 1)
    assert sorted(each.worker for each in answered) == ["env_1"] * COMPARE_PREFETCH + ["env_2"]


async def test_a_group_is_compared_by_another_worker_when_its_own_is_gone(tmp_path: Path) -> None:
    async with open_hub(tmp_path) as hub, hanging_judge() as (judge, slow):
        broker = hub.client("test")
        async with serving(hub, "env_1"):
            await ask(broker, "group_1", slow)
            await is_asked(judge)
        async with serving(hub, "env_2"):
            await is_asked(judge)
            judge.goes_on.set()
            [answer] = await answers(broker, 1)
    assert (answer.envelope.episode, answer.worker) == ("group_1", "env_2")
