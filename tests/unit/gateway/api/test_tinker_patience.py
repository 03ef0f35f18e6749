"""How long samples of Tinker's clients wait: for as long as their clients are there, and no longer."""

import time
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from sqlmodel import Session, update
from tests.support.brokers import eventually
from tests.support.clock import Clock
from tests.support.gateway import Gateway, heartbeat, open_gateway
from tests.support.rote_sampler import BASE, failed, step
from tests.support.sampling_gateway import running
from tests.support.tinker import Wire

from warren_broker.batch_publisher import BatchPublisher
from warren_broker.inbox import Inbox, receive
from warren_broker.port import Broker
from warren_broker.topology import generate, home
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.settings import GatewayOptions
from warren_gateway.store.store import Store
from warren_gateway.store.tables import TinkerSession
from warren_gateway.tinker.creating import IDLE_S
from warren_gateway.tinker.samples.answering import Answering, Ask
from warren_gateway.tinker.samples.clients import SampleClients
from warren_gateway.tinker.samples.completions import CompletionRows
from warren_gateway.tinker.samples.futures import NoSuchFuture, SampleFutures
from warren_gateway.tinker.samples.rows import HELD_S, SampleRows
from warren_gateway.tinker.services import ask_of
from warren_gateway.tinker.wire import messages
from warren_gateway.trainable.waiters import Waiters
from warren_schemas.control import WorkerRole
from warren_schemas.episode import EpisodeEnded, FailureKind, Generate, Step
from warren_schemas.tinker.requests import Sample

ANSWER_S = GatewayOptions().tinker_answer_s
PROMPT = [2, 5, 7]


@dataclass
class Sampler:
    """Answers as it is told to."""

    broker: Broker
    inbox: Inbox[Generate]
    waiting: list[Generate] = field(default_factory=list[Generate])

    async def asked(self) -> Generate:
        while not self.waiting:
            claims = await anext(self.inbox)
            self.waiting += [claim.item for claim in claims]
            for claim in claims:
                claim.done()
        return self.waiting.pop(0)

    async def answer(self, item: Generate, answer: Step | EpisodeEnded) -> None:
        await BatchPublisher(self.broker).send(home(item.home, item.spec.environment), answer)


@pytest.fixture
async def asking(gateway: Gateway) -> AsyncGenerator[Sampler]:
    """A gateway that asks, and whom it asks."""
    async with (
        running(gateway.services.sampler_requests.run()),
        sampler_of(gateway.broker) as inbox,
    ):
        yield Sampler(gateway.broker, inbox)


@pytest.fixture
async def asked(gateway: Gateway, asking: Sampler) -> AsyncGenerator[Sampler]:
    async with running(gateway.services.tinker.futures.run()):
        yield asking


def sampler_of(broker: Broker) -> AbstractAsyncContextManager[Inbox[Generate]]:
    return receive(broker, generate(BASE), Generate, prefetch=8)


async def opened(gateway: Gateway, wire: Wire) -> str:
    gateway.services.registry.hear(heartbeat("sampler_1", WorkerRole.SAMPLER, BASE))
    return await wire.sampler(await wire.session(), base_model=BASE)


def leave(gateway: Gateway) -> None:
    gone = heartbeat("sampler_1", WorkerRole.SAMPLER, BASE, is_leaving=True)
    gateway.services.registry.hear(gone)


def come(gateway: Gateway) -> None:
    gateway.services.registry.hear(heartbeat("sampler_2", WorkerRole.SAMPLER, BASE))


async def told(wire: Wire, future: str) -> int:
    """How many sequences."""
    outcome = await wire.outcome(future)
    assert isinstance(outcome, bytes), outcome
    return len(messages.SampleResponse.FromString(outcome).sequences)


async def test_an_answer_that_samplers_dropped_is_asked_for_again_with_twice_the_time(
    gateway: Gateway, asked: Sampler
) -> None:
    ann = Wire(gateway.ann)
    future = await ann.ask(await opened(gateway, ann), 0, PROMPT, num_samples=2)
    first, dropped = await asked.asked(), await asked.asked()
    await asked.answer(first, step(first, "a"))
    await asked.answer(dropped, failed(dropped, FailureKind.DEADLINE))
    again = await asked.asked()
    before_s, after_s = dropped.envelope.deadline_s, again.envelope.deadline_s
    assert before_s is not None and after_s is not None
    assert after_s - before_s >= ANSWER_S
    await asked.answer(again, step(again, "a"))
    assert await told(ann, future["request_id"]) == 2
    assert gateway.services.sampler_requests.n_waiting == 0


async def test_a_question_that_was_lost_is_asked_again_once_its_time_is_over(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    options = GatewayOptions(tinker_answer_s=1)
    async with (
        open_gateway(store, broker, tmp_path / "runs", options=options) as gateway,
        running(gateway.services.sampler_requests.run(), gateway.services.tinker.futures.run()),
        sampler_of(broker) as inbox,
    ):
        sampler, ann = Sampler(broker, inbox), Wire(gateway.ann)
        future = await ann.ask(await opened(gateway, ann), 0, PROMPT)
        lost, again = await sampler.asked(), await sampler.asked()
        assert lost.envelope.episode != again.envelope.episode
        await sampler.answer(again, step(again, "a"))
        assert await told(ann, future["request_id"]) == 1


async def test_a_sample_that_was_cancelled_before_a_sampler_came_is_asked_of_none(
    gateway: Gateway, asked: Sampler
) -> None:
    ann = Wire(gateway.ann)
    opened_sampler = await opened(gateway, ann)
    leave(gateway)
    gone, live = [await ann.ask(opened_sampler, n, [*PROMPT, 10 + n]) for n in range(2)]
    await ann.post("cancel_future", {"request_id": gone["request_id"]})
    assert gateway.services.sampler_requests.n_waiting == 0
    come(gateway)
    first = await asked.asked()
    assert first.transcript.tokens.ids_T.tolist() == [*PROMPT, 11]
    await asked.answer(first, step(first, "a"))
    assert await told(ann, live["request_id"]) == 1


async def test_an_answer_is_asked_for_again_once_a_sampler_is_there_and_its_time_begins_then(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    options = GatewayOptions(tinker_answer_s=1)
    async with (
        open_gateway(store, broker, tmp_path / "runs", options=options) as gateway,
        running(gateway.services.sampler_requests.run(), gateway.services.tinker.futures.run()),
        sampler_of(broker) as inbox,
    ):
        sampler, ann = Sampler(broker, inbox), Wire(gateway.ann)
        future = await ann.ask(await opened(gateway, ann), 0, PROMPT)
        await sampler.asked()
        leave(gateway)

        async def is_over() -> bool:
            return gateway.services.sampler_requests.n_waiting == 0

        await eventually(is_over)
        come_s = time.time()
        come(gateway)
        again = await sampler.asked()
        assert again.envelope.deadline_s is not None
        assert again.envelope.deadline_s >= come_s + 2 * options.tinker_answer_s
        await sampler.answer(again, step(again, "a"))
        assert await told(ann, future["request_id"]) == 1


async def test_a_sample_that_is_taken_up_by_the_next_gateway_waits_for_a_sampler_as_well(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    async with (
        open_gateway(store, broker, tmp_path / "runs") as first,
        running(first.services.sampler_requests.run(), first.services.tinker.futures.run()),
    ):
        ann = Wire(first.ann)
        sampler_id = await opened(first, ann)
        leave(first)
        future = (await ann.ask(sampler_id, 0, PROMPT))["request_id"]
    async with (
        open_gateway(store, broker, tmp_path / "runs") as gateway,
        running(gateway.services.sampler_requests.run(), gateway.services.tinker.futures.run()),
        sampler_of(broker) as inbox,
    ):
        sampler, ann, futures = (
            Sampler(broker, inbox),
            Wire(gateway.ann),
            gateway.services.tinker.futures,
        )
        assert await futures.outcome("ann", future, within_s=0) is None
        assert gateway.services.sampler_requests.n_waiting == 0
        come(gateway)
        item = await sampler.asked()
        await sampler.answer(item, step(item, "a"))
        assert await told(ann, future) == 1


async def test_a_sample_that_is_more_than_the_next_gateway_takes_fails_there(
    store: Store, broker: Broker, tmp_path: Path
) -> None:
    async with (
        open_gateway(store, broker, tmp_path / "runs") as first,
        running(first.services.tinker.futures.run()),
    ):
        ann = Wire(first.ann)
        future = await ann.ask(await opened(first, ann), 0, PROMPT, num_samples=2)
    budgets = BudgetOptions(answers_per_owner=1)
    async with (
        open_gateway(store, broker, tmp_path / "runs", budgets=budgets) as gateway,
        running(gateway.services.tinker.futures.run()),
    ):
        outcome = await Wire(gateway.ann).outcome(future["request_id"])
        assert isinstance(outcome, dict)
        assert outcome["error"] == "num_samples is 2, and 1 is the most here"


async def test_a_question_counts_once_for_each_answer_that_is_asked_for(
    gateway: Gateway, asked: Sampler
) -> None:
    ann, budgets = Wire(gateway.ann), gateway.services.budgets
    sampler = await opened(gateway, ann)
    leave(gateway)
    prompt = PROMPT * 334
    await ann.ask(sampler, 0, prompt)
    once = budgets.asked.n_held
    for number in range(1, 5):
        await ann.ask(sampler, number, prompt, num_samples=1024)
    assert budgets.answers.n_held == 4097, "a batch of ordinary size is accepted"
    assert budgets.asked.n_held > 4096 * (once - 1)
    beyond = await ann.ask(sampler, 5, PROMPT * 70_000, num_samples=1024)
    outcome = await ann.outcome(beyond["request_id"])
    assert isinstance(outcome, dict)
    assert outcome["category"] == "user"
    assert "once for each of 1024 samples" in outcome["error"]


def futures_by(clock: Clock, gateway: Gateway) -> tuple[SampleFutures, Answering]:
    """The gateway's samples, by a clock that tests set."""
    store, pool, waiters = gateway.store, gateway.services.budgets, Waiters()
    rows = SampleRows(store, lambda: None)
    offered = partial(gateway.services.registry.offered, WorkerRole.SAMPLER)
    answering = Answering(
        gateway.services.sampler_requests,
        offered,
        pool.answers,
        pool.asked,
        rows,
        waiters,
        ANSWER_S,
    )
    clients = SampleClients(store, clock)
    return SampleFutures(
        answering, rows, CompletionRows(store), clients, waiters, never_again
    ), answering


async def never_again(owner: str, body: bytes) -> Ask:
    raise AssertionError(f"{owner} is not asked for again: {body!r}")


async def test_a_sample_whose_client_is_gone_ends_and_its_places_are_free(
    gateway: Gateway, asking: Sampler
) -> None:
    ann = Wire(gateway.ann)
    sampler = await opened(gateway, ann)
    futures, answering = futures_by(clock := Clock(), gateway)
    async with answering.serving():
        name = await asked_by(futures, gateway, sampler)
        await asking.asked()
        await held_for(futures, clock, IDLE_S)
        assert gateway.services.budgets.answers.n_held == 1, "its client has a heartbeat"
        await gateway.store.transact(silence)
        await futures.hold()
        with pytest.raises(NoSuchFuture):
            await futures.outcome("ann", name, within_s=0)
    assert (
        gateway.services.budgets.answers.n_held == gateway.services.sampler_requests.n_waiting == 0
    )
    (heard,) = (await futures.completed((sampler, 0), 0, within_s=0)).completions
    assert (heard.name, heard.n_bytes) == (name, None), "its client hears of it, should it come"


async def asked_by(futures: SampleFutures, gateway: Gateway, sampler: str) -> str:
    chunks = [{"type": "encoded_text", "tokens": PROMPT}]
    body = {"sampling_session_id": sampler, "seq_id": 0, "prompt": {"chunks": chunks}}
    takes, name = Sample.model_validate(body), f"{sampler}:0"
    policy = (await gateway.services.tinker.sessions.sampler("ann", sampler)).policy
    await futures.ask("ann", name, b"{}", partial(ask_of, takes, policy, b"{}"))
    return name


async def held_for(futures: SampleFutures, clock: Clock, for_s: float) -> None:
    ends_s = clock.now_s + for_s
    while clock.now_s < ends_s:
        clock.now_s += HELD_S / 3
        await futures.hold()


def silence(session: Session) -> None:
    """Nothing was heard of its client since before the clock began."""
    session.exec(update(TinkerSession).values(seen_s=-IDLE_S))
