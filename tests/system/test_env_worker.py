"""Env workers at work: whole episodes, workers that stop or are killed in the middle of them.

The policy says what it is shown, which is always right: an episode of n turns that ends with a reward
of n went through every turn once, wherever it was rebuilt.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from tests.support.hosting import child_pids
from tests.support.interacting import echo, endings, sampling, spec, start, start_all
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.private_rabbit import PrivateRabbit
from tests.support.processes import end, signal_group, spawn

from warren_broker.connect import open_broker
from warren_broker.inbox import Inbox, listen
from warren_broker.memory import MemoryHub, open_hub
from warren_broker.port import Broker
from warren_broker.topology import RUNS, WORKERS
from warren_env_worker.service import FULL_S, serve_env_worker
from warren_env_worker.settings import EnvWorkerSettings
from warren_schemas.codec.wire import encode
from warren_schemas.control import Heartbeat, RunEnded
from warren_schemas.envelope import Envelope
from warren_schemas.episode import Completed, EpisodeEnded, Failed, FailureKind, Generate
from warren_schemas.ids import ModelId, WorkerId, new_id, new_run_id

"""5 s, on a machine with nothing else to do."""
MIDWAY = 5
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "warren", "env-worker"]
OPTIONS = ["--only", "--env", "tests.support.environments:Letters"]
ENVIRONMENTS = ("tests.support.environments:Letters", "tests.support.environments:Hostile")


def reward(ended: EpisodeEnded) -> float:
    assert isinstance(ended.outcome, Completed), ended.outcome
    return ended.outcome.reward


def workers_of(ended: list[EpisodeEnded]) -> set[str]:
    return {item.worker for item in ended}


@asynccontextmanager
async def serving(
    hub: MemoryHub, worker: str, *, capacity: int = 1024, full_s: float = FULL_S
) -> AsyncGenerator["asyncio.Task[None]"]:
    """An env worker in this process, with a broker client of its own."""
    settings = EnvWorkerSettings(
        environments=ENVIRONMENTS,
        only_named=True,
        capacity=capacity,
        worker=WorkerId(worker),
    )
    client = hub.client(worker)
    task = asyncio.create_task(serve_env_worker(client, settings, full_s=full_s), name=worker)
    try:
        await heard(client, lambda heartbeat: heartbeat.worker == worker)
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})
        await client.close()


async def heard(broker: Broker, is_awaited: Callable[[Heartbeat], bool]) -> Heartbeat:
    """The first heartbeat from now on that is the awaited one."""
    async with listen(broker, WORKERS, Heartbeat) as inbox:
        return await found(inbox, is_awaited)


async def found(inbox: Inbox[Heartbeat], is_awaited: Callable[[Heartbeat], bool]) -> Heartbeat:
    async with asyncio.timeout(PATIENCE_S):
        async for claims in inbox:
            for claim in claims:
                claim.done()
                if is_awaited(claim.item):
                    return claim.item
    raise AssertionError("the topic ended")


async def play_all(broker: Broker, n: int, n_turns: int) -> list[EpisodeEnded]:
    run = new_run_id()
    of = spec(max_turns=100, environment_config={"n_turns": n_turns})
    starts = [start(new_id("ep"), of, run=run) for _ in range(n)]
    await start_all(broker, starts)
    ended = await asyncio.wait_for(endings(broker, n, run=run), PATIENCE_S)
    asked = {item.envelope.episode for item in starts}
    assert {item.envelope.episode for item in ended} == asked
    return ended


async def test_episodes_of_one_worker() -> None:
    async with open_hub() as hub, serving(hub, "env_1"):
        broker = hub.client("test")
        async with sampling(broker):
            ended = await play_all(broker, 200, 3)
    assert [reward(item) for item in ended] == [3.0] * 200
    assert all(len(item.transcript.turns) == 3 for item in ended)


async def test_row_40_workers_share_the_episodes_and_every_turn_goes_home() -> None:
    homes: dict[str | None, set[str]] = {}

    def policy(item: Generate) -> str:
        homes.setdefault(item.envelope.episode, set()).add(item.home)
        return echo(item)

    async with open_hub() as hub, serving(hub, "env_1"), serving(hub, "env_2"):
        broker = hub.client("test")
        async with sampling(broker, policy):
            ended = await play_all(broker, 1000, 3)
    assert workers_of(ended) == {"env_1", "env_2"}
    assert {reward(item) for item in ended} == {3.0}
    assert {len(there) for there in homes.values()} == {1}
    assert all(homes[item.envelope.episode] == {item.worker} for item in ended)


async def test_a_full_worker_takes_no_new_episodes_but_all_steps() -> None:
    async with open_hub() as hub, serving(hub, "env_1", capacity=5):
        broker = hub.client("test")
        async with sampling(broker):
            ended = await play_all(broker, 300, 3)
    assert {reward(item) for item in ended} == {3.0}


async def test_a_full_worker_finds_steps_that_lost_their_way_behind_new_episodes() -> None:
    """Their episodes are live there, and none of them ends before they are taken."""
    async with (
        open_hub() as hub,
        serving(hub, "env_1", capacity=3, full_s=0.02),
        serving(hub, "env_2", capacity=3, full_s=0.02),
    ):
        broker = hub.client("test")
        async with sampling(broker, finds_home=False):
            ended = await play_all(broker, 20, 3)
    assert [reward(item) for item in ended] == [3.0] * 20


async def test_a_worker_that_stops_hands_its_episodes_over() -> None:
    async with open_hub() as hub, serving(hub, "env_2") as _second:
        broker = hub.client("test")
        async with serving(hub, "env_1") as first:
            half = asyncio.Event()

            def policy(item: Generate) -> str:
                if item.home == "env_1" and item.turn == MIDWAY:
                    half.set()
                return echo(item)

            async with sampling(broker, policy):
                playing = asyncio.create_task(play_all(broker, 300, 2 * MIDWAY))
                await half.wait()
                first.cancel()
                async with asyncio.timeout(STOP_S):
                    await asyncio.wait({first})
                ended = await playing
    assert {reward(item) for item in ended} == {2.0 * MIDWAY}
    assert any(item.spec.n_recoveries_left == 2 for item in ended)


async def test_a_failing_environment_fails_its_own_episodes_only() -> None:
    run = new_run_id()
    hostile = spec("hostile", environment_config={"deed": "exit"})
    starts = [start(f"ep_{i}", hostile, run=run) for i in range(12)]
    evil = {"ep_3", "ep_7"}

    def policy(item: Generate) -> str:
        return "evil" if item.envelope.episode in evil and item.turn == 1 else echo(item)

    async with open_hub() as hub, serving(hub, "env_1"):
        broker = hub.client("test")
        async with sampling(broker, policy):
            await start_all(broker, starts)
            ended = await asyncio.wait_for(endings(broker, 12, run=run), PATIENCE_S)
    failed = {item.envelope.episode for item in ended if isinstance(item.outcome, Failed)}
    assert failed == evil
    kinds = {item.outcome.kind for item in ended if isinstance(item.outcome, Failed)}
    assert kinds == {FailureKind.ENVIRONMENT_CRASHED}
    assert {reward(item) for item in ended if item.envelope.episode not in evil} == {3.0}


async def test_the_episodes_of_an_ended_run_are_closed() -> None:
    async with open_hub() as hub, serving(hub, "env_1"):
        broker = hub.client("test")
        run = new_run_id()
        await start_all(broker, [start(f"ep_{i}", run=run) for i in range(10)])
        await heard(broker, lambda heartbeat: heartbeat.in_flight == 10)
        ended = RunEnded(envelope=Envelope(), ended_run=run, model=ModelId("model_1"))
        await broker.publish(RUNS, encode([ended]), message_id=ended.envelope.id)
        await heard(broker, lambda heartbeat: heartbeat.in_flight == 0)


async def test_a_worker_says_that_it_leaves_and_its_children_go() -> None:
    async with open_hub() as hub:
        broker = hub.client("test")
        async with serving(hub, "env_1") as task, listen(broker, WORKERS, Heartbeat) as inbox:
            assert len(child_pids()) == 2
            task.cancel()
            last = await found(inbox, lambda heartbeat: heartbeat.is_leaving)
            assert last.offers == ("letters", "hostile")
        assert child_pids() == []


@contextmanager
def started(url: str, log: Path) -> Generator["subprocess.Popen[bytes]"]:
    """`warren env-worker` as a process of its own."""
    process = spawn([*COMMAND, "--broker", url, *OPTIONS], log_path=log, folder=ROOT)
    try:
        yield process
    finally:
        signal_group(process, signal.SIGKILL)
        process.wait()


async def heard_from(broker: Broker, process: "subprocess.Popen[bytes]") -> WorkerId:
    return (await heard(broker, lambda heartbeat: heartbeat.pid == process.pid)).worker


async def test_a_killed_worker_costs_nothing(private_rabbit: PrivateRabbit, tmp_path: Path) -> None:
    url = private_rabbit.url
    with started(url, tmp_path / "first") as first, started(url, tmp_path / "second") as second:
        async with open_broker(url, name="test") as broker:
            lost, heir = await heard_from(broker, first), await heard_from(broker, second)

            def policy(item: Generate) -> str:
                if item.home == lost and item.turn == MIDWAY:
                    signal_group(first, signal.SIGKILL)
                return echo(item)

            async with sampling(broker, policy):
                ended = await play_all(broker, 200, 2 * MIDWAY)
    assert {reward(item) for item in ended} == {2.0 * MIDWAY}
    assert heir in workers_of(ended)
    assert lost != heir
    assert any(item.spec.n_recoveries_left == 2 for item in ended)


async def test_row_38_workers_elsewhere_are_heard_and_serve_episodes_by_id(
    private_rabbit: PrivateRabbit, tmp_path: Path
) -> None:
    """One that comes later takes its share."""
    url = private_rabbit.url
    with started(url, tmp_path / "first") as first:
        async with open_broker(url, name="test") as broker, sampling(broker):
            early = await heard_from(broker, first)
            assert workers_of(await play_all(broker, 100, 3)) == {early}
            with started(url, tmp_path / "second") as second:
                late = await heard_from(broker, second)
                async with asyncio.timeout(PATIENCE_S):  # one that gets no CPU misses a round
                    while late not in workers_of(await play_all(broker, 1000, 3)):
                        pass


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
async def test_it_stops_in_good_order(
    private_rabbit: PrivateRabbit, tmp_path: Path, signum: signal.Signals
) -> None:
    with started(private_rabbit.url, tmp_path / "log") as process:
        async with open_broker(private_rabbit.url, name="test") as broker:
            await heard_from(broker, process)
            await asyncio.to_thread(end, process, signum, grace_s=STOP_S)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "An env worker needs a broker"),
        (["--broker", "amqp://127.0.0.1:1"], "no answer from RabbitMQ at 127.0.0.1:1"),
        (["--broker", "http://x"], "is no broker URL"),
        (["--broker", "memory:", "--env", "no_such_module:X"], "there is no module no_such_module"),
        (["--broker", "memory:", "--env", "MyEnv"], "Write module:Class"),
        (
            ["--broker", "memory:", "--env", "tests.support.environments:NotAnEnvironment"],
            "must be a subclass of warren.Env",
        ),
        (
            ["--broker", "memory:", "--env", "guess=tests.support.environments:Letters"],
            "two environments are called guess",
        ),
        (["--broker", "memory:", "--only"], "there is no environment to host"),
        (["--broker", "memory:", "--capacity", "0"], "capacity: "),
    ],
)
def test_what_can_not_work_is_said_in_a_sentence(arguments: list[str], sentence: str) -> None:
    variables = {k: v for k, v in os.environ.items() if k != "WARREN_BROKER_URL"}
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
