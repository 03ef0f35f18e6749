"""Fuzzed messages to a gateway and workers that run, and to a run that goes on; then a run completes.

The addresses are all those that the deployment itself publishes to: queues of work, homes, orders, ops and
their results, streams, topics. What is sent there is malformed, or valid and wrong, or was sent before.

Invariants
- Each malformed message of a queue lies in `dead` with its reason; every other one was settled or lies
  there, too: when the deployment has stopped, and with that handed back what it held, no queue holds any.
- Nothing that a part does for a message ends it or one of its processes, replaced or not, and the run that goes
  on meanwhile does not fail.
- A run afterwards completes, and so does one that replays a stream that holds such messages.
"""

import asyncio
import os
import random
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.forgeries import PLAYED_S, Stranger, forged
from tests.fuzz.mutations import mutant
from tests.support.brokers import eventually
from tests.support.one_process import OpenPlace, in_process, tiny_site
from tests.support.processes import children, forks_running, is_alive
from tests.support.tapped_broker import Traffic, tapping

import warren
from warren_broker.errors import Unroutable
from warren_broker.port import Broker
from warren_broker.topology import DEAD, Address, Home, WorkQueue
from warren_gateway.budgets.options import BudgetOptions
from warren_schemas.codec.frame import WireError
from warren_schemas.codec.wire import decode, encode
from warren_schemas.ids import ModelId, new_message_id

CONFIG = {
    "model": {"base": "warren/tiny"},
    "environments": [{"name": "guess"}],
    "limits": {"steps": 1},
}
ENDLESS = {
    **CONFIG,
    "name": "during the fuzz",
    "sft": {"steps": 40},  # so that the trainer has something to do, and groups differ
    "limits": {"steps": 1_000_000},
}
ROOM_FOR_EVERY_LETTER = BudgetOptions(
    dead_letters_per_owner=1_000_000, dead_letter_mib_per_owner=100_000
)
"""A quota would drop letters that are counted here."""
N_SENDERS = 8
P_FORGED = 0.04
"""Each may be an episode that is played."""
P_TWIN = 0.04
MOST_LETTERS = 1_000
"""Of those whose reason is looked at."""


@dataclass
class Told:
    sent: Counter[str] = field(default_factory=Counter[str])
    addresses: Counter[str] = field(default_factory=Counter[str])
    n_malformed: int = 0
    """Of those to queues and homes that outlive the fuzz."""
    n_dead: int = 0
    left: dict[str, int] = field(default_factory=dict[str, int])
    """Messages in queues after the deployment has stopped; `dead` aside."""
    died: list[int] = field(default_factory=list[int])
    """Processes of the parts that were there before the fuzz, and not after it."""
    during: str = ""
    why: str = ""
    """What that run failed of."""
    outcome: str = ""
    replayed: str = ""

    @property
    def is_good(self) -> bool:
        outcomes = {self.outcome, self.replayed}
        is_settled = not self.left and self.n_dead >= self.n_malformed
        return (
            is_settled and not self.died and self.during == "running" and outcomes == {"completed"}
        )


async def fuzz(n_messages: int, seed: int, open_place: OpenPlace | None = None) -> Told:
    """Raises what a part of the deployment ended with."""
    told, traffic = Told(), Traffic()
    with tempfile.TemporaryDirectory() as folder:
        place = open_place or (lambda: in_process(Path(folder) / "broker"))
        async with place() as client_named:

            def tapped() -> AbstractAsyncContextManager[Callable[[str], Awaitable[Broker]]]:
                return _entered(tapping(client_named, traffic))

            site = tiny_site(Path(folder), tapped)
            site.budgets = ROOM_FOR_EVERY_LETTER
            broker = await client_named("fuzz")
            async with site.running(site.gpu_worker, site.env_worker) as client:
                await _fuzz(client, broker, traffic, _Plan(n_messages, random.Random(seed)), told)
            await _look_after(broker, traffic, told)
    return told


@asynccontextmanager
async def _entered(
    client_named: Callable[[str], Awaitable[Broker]],
) -> AsyncGenerator[Callable[[str], Awaitable[Broker]]]:
    """A place that outlives the deployment."""
    yield client_named


@dataclass
class _Plan:
    n_messages: int
    rng: random.Random


async def _fuzz(
    client: warren.Client, broker: Broker, traffic: Traffic, plan: _Plan, told: Told
) -> None:
    before = await _complete(client, "before the fuzz")
    stranger = Stranger(before.id, _model_of(traffic))
    processes = [*children(os.getpid()), *forks_running("child.main")]
    print("a run before it: completed", flush=True)
    during = await client.train(ENDLESS)
    following = asyncio.create_task(_follow(during), name="follow the run")
    await eventually(lambda: _is_trained(traffic, stranger))
    async with asyncio.TaskGroup() as tasks:
        for _ in range(N_SENDERS):
            tasks.create_task(_send(broker, traffic, stranger, plan, told))
    print("all sent; waiting until they are settled", flush=True)
    await eventually(lambda: _is_settled(broker, told))
    told.died = [pid for pid in processes if not is_alive(pid)]
    told.during = (await during.refresh()).state.value
    told.why = during.view.error or ""
    await during.cancel()
    await following
    told.outcome = (await _complete(client, "after the fuzz")).state.value
    replay = await client.replay(before.id, {**CONFIG, "name": "a replay after the fuzz"})
    await replay.result()
    told.replayed = replay.state.value
    # Until nobody may play what was forged: a part that leaves hands it back.
    await asyncio.sleep(PLAYED_S)


async def _follow(run: warren.Run) -> None:
    """As people do; events that are none are passed over."""
    async for _ in run.events():
        pass


async def _complete(client: warren.Client, name: str) -> warren.Run:
    """Raises where it does not complete."""
    run = await client.train({**CONFIG, "name": name})
    await run.result()
    return run


def _models(traffic: Traffic) -> list[ModelId]:
    names = [address.name for address in traffic.bodies]
    return [ModelId(n.removeprefix("results.")) for n in names if n.startswith("results.")]


def _model_of(traffic: Traffic) -> ModelId:
    (model,) = _models(traffic)
    return model


async def _is_trained(traffic: Traffic, stranger: Stranger) -> bool:
    """The run that goes on has come so far that every kind of address is known."""
    names = [address.name for address in traffic.bodies]
    return any(n.startswith("train.") and stranger.model not in n for n in names) and (
        set(_models(traffic)) > {stranger.model}
    )


async def _send(
    broker: Broker, traffic: Traffic, stranger: Stranger, plan: _Plan, told: Told
) -> None:
    rng = plan.rng
    while told.sent.total() < plan.n_messages:
        address, name, body = _message(rng, traffic, stranger)
        if body is None:
            continue
        try:
            await broker.publish(address, body, message_id=new_message_id())
        except Unroutable:  # of a run or a lease that is over
            traffic.forget(address)
            continue
        told.sent[name] += 1
        told.addresses[_kind(address)] += 1
        told.n_malformed += _stays(address) and not is_valid(body)
        if told.sent.total() % 10_000 == 0:
            print(f"{told.sent.total():,} of {plan.n_messages:,} messages", flush=True)


def _message(
    rng: random.Random, traffic: Traffic, stranger: Stranger
) -> tuple[Address, str, bytes | None]:
    """Where to, what was done to it, and itself."""
    address = rng.choice([each for each in traffic.bodies if each != DEAD])
    body = rng.choice(traffic.bodies[address])
    chance = rng.random()
    if chance < P_FORGED:
        return address, "forged", forged(rng, body, stranger)
    if chance < P_FORGED + P_TWIN:
        return address, "twin", None if _is_order(address) else body
    whole = body if rng.random() < 0.5 else None
    name, wrong = mutant(rng, whole)
    is_like_any_other = is_valid(wrong) or (whole is not None and _alters(whole, wrong))
    return address, name, None if is_like_any_other else wrong


def _alters(whole: bytes, wrong: bytes) -> bool:
    """Whether an item of it is valid and says something else: what it asks for would only be done."""
    return not _items(wrong) <= _items(whole)


def _items(body: bytes) -> set[bytes]:
    """Those that can be read."""
    try:
        return {encode([item]) for item in decode(body).items}
    except WireError:
        return set()


def _stays(address: Address) -> bool:
    """Whether the queue outlives the fuzz: those of a lease go with it, and what lies in them."""
    of_lease = address.name.startswith(("train.", "results."))
    return isinstance(address, WorkQueue | Home) and not of_lease


def _is_order(address: Address) -> bool:
    """To a trainer: what grants a model is right by saying so."""
    return address.name.startswith("trainer.")


def is_valid(body: bytes) -> bool:
    """Every item of it."""
    try:
        decoded = decode(body)
    except WireError:
        return False
    return bool(decoded.items) and not decoded.rejected


def _kind(address: Address) -> str:
    kind = address.name.partition(".")[0]
    return f"{type(address).__name__} {kind}"


async def _is_settled(broker: Broker, told: Told) -> bool:
    return (await broker.depth(DEAD) or 0) >= told.n_malformed


async def _look_after(broker: Broker, traffic: Traffic, told: Told) -> None:
    """What is left once nobody holds anything any more."""
    queues = [
        each for each in traffic.bodies if isinstance(each, WorkQueue | Home) and each != DEAD
    ]

    async def is_empty() -> bool:
        depths = {each.name: await broker.depth(each) for each in queues}
        told.left = {name: depth for name, depth in depths.items() if depth}
        return not told.left

    with suppress(TimeoutError):
        await eventually(is_empty)
    told.n_dead = await broker.depth(DEAD) or 0
    letters = await broker.dead_letters(limit=MOST_LETTERS)
    assert all(letter.reason for letter in letters)
