"""What Tinker's clients are told while they wait: why, and how much comes first."""

import asyncio
from collections.abc import AsyncGenerator
from functools import partial

import pytest
from sqlmodel import Session, update
from tests.support.brokers import eventually
from tests.support.gateway import Gateway, heartbeat
from tests.support.rote_sampler import answering
from tests.support.sampling_gateway import running
from tests.support.tinker import Json, Wire

from warren_gateway.advice import SEPARATE_WORKERS
from warren_gateway.api.tinker.sampling import RETRY_S
from warren_gateway.store.tables import Model
from warren_gateway.tinker.samples.waiting import waits_for
from warren_schemas.control import Heartbeat, WorkerRole

BASE = "warren/tiny"
PLACES = 2


@pytest.fixture
async def scheduled(gateway: Gateway) -> AsyncGenerator[Gateway]:
    """Its scheduler decides, and its samples are asked for."""
    async with running(gateway.scheduler.run(), gateway.services.tinker.futures.run()):
        yield gateway


def sampler(**fields: object) -> Heartbeat:
    return heartbeat("s1", WorkerRole.SAMPLER, BASE, capacity=PLACES, **fields)


async def model_of(wire: Wire) -> str:
    asked: Json = {"session_id": await wire.session(), "model_seq_id": 0, "base_model": BASE}
    return (await wire.post("create_model", asked))["model_id"]


async def step(wire: Wire, model: str, number: int) -> str:
    asked: Json = {"model_id": model, "seq_id": number, "adam_params": {}}
    return (await wire.post("optim_step", asked))["request_id"]


async def waiting(wire: Wire, future: str) -> tuple[str, str]:
    told = await wire.outcome(future, status=408)
    assert isinstance(told, dict)
    return told["queue_state"], told["queue_state_reason"] or ""


@pytest.mark.slow
async def test_who_waits_is_told_why_and_how_much_comes_first(scheduled: Gateway) -> None:
    ann, bob = Wire(scheduled.ann), Wire(scheduled.bob)
    scheduled.services.registry.hear(sampler())
    await model_of(bob)
    model = await model_of(ann)
    await step(ann, model, 1)
    op = await step(ann, model, 2)
    opened = await ann.sampler(await ann.session(), base_model=BASE)
    first, last = [await ann.ask(opened, n, [2, 5, 7], num_samples=PLACES) for n in range(2)]
    asked = (op, first["request_id"], last["request_id"])
    of_op, of_first, of_last = await asyncio.gather(*(waiting(ann, one) for one in asked))
    told = (
        "the model is number 2 (1 of others before it) in the queue for trainers: no GPU worker that is"
        " online trains warren/tiny; ops of the model that come first: 1"
    )
    assert of_op == ("paused_capacity", told)
    assert of_first == ("active", "")
    told = "at least 2 answers were asked for before it, and the samplers of warren/tiny make 2 at a time"
    assert of_last == ("paused_capacity", told)


def test_a_sample_waits_for_a_sampler_that_has_its_base_model() -> None:
    waits = partial(waits_for, BASE, advice=SEPARATE_WORKERS)
    other = heartbeat("s2", WorkerRole.SAMPLER, "other/model", loading=(BASE,))
    assert waits(0, [sampler(), other]) is None
    assert waits(0, [other]) == "loading warren/tiny on s2"
    nobody = waits(0, [])
    assert nobody and nobody.startswith("no sampler offers warren/tiny (none is online); start one")


async def test_a_session_begins_with_what_its_client_will_wait_for(scheduled: Gateway) -> None:
    ann, registry = Wire(scheduled.ann), scheduled.services.registry

    async def told() -> str | None:
        return (await ann.post("create_session", {}))["info_message"]

    assert await told() == (
        "No trainer takes models now: they wait for one. No sampler answers now: sampling waits for one."
    )
    await model_of(ann)
    registry.hear(sampler())
    registry.hear(heartbeat("t1", WorkerRole.TRAINER, "other/model"))

    async def is_queued() -> bool:
        return await told() == "1 job waits for a trainer already."

    await eventually(is_queued)


async def test_a_sample_is_accepted_where_no_sampler_is_and_waits_for_one(
    scheduled: Gateway,
) -> None:
    ann, registry = Wire(scheduled.ann), scheduled.services.registry
    registry.hear(sampler())
    opened = await ann.sampler(await ann.session(), base_model=BASE)
    registry.hear(sampler(is_leaving=True))
    assert not registry.alive(WorkerRole.SAMPLER)
    future = (await ann.ask(opened, 0, [2, 5, 7]))["request_id"]
    async with answering(scheduled, asyncio.Queue()):
        assert isinstance(await ann.outcome(future), bytes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sampling": {"max_tokens": 0}},
        {"sampling": {"top_p": 0}},
        {"sampling": {"temperature": -1}},
        {"num_samples": 1025},
    ],
)
async def test_what_no_sampler_could_do_is_refused_at_once(gateway: Gateway, wrong: Json) -> None:
    ann = Wire(gateway.ann)
    gateway.services.registry.hear(sampler())
    opened = await ann.sampler(await ann.session(), base_model=BASE)
    told = await ann.ask(opened, 0, [2, 5, 7], **wrong, status=422)
    assert told["detail"].startswith("The body has 1 mistake")


async def opening(wire: Wire, base_model: str, *, status: int) -> Json:
    asked = {"session_id": await wire.session(), "sampling_session_seq_id": 0}
    return await wire.post(
        "create_sampling_session", {**asked, "base_model": base_model}, status=status
    )


async def test_a_sampler_is_opened_again_later_where_nothing_is_known_of_samplers(
    gateway: Gateway,
) -> None:
    ann, registry = Wire(gateway.ann), gateway.services.registry
    asked = {"session_id": await ann.session(), "sampling_session_seq_id": 0, "base_model": BASE}
    async with ann.http.post("/api/v1/create_sampling_session", json=asked) as response:
        assert (response.status, response.headers["Retry-After"]) == (503, f"{RETRY_S}")
    registry.hear(heartbeat("s1", WorkerRole.SAMPLER))
    await opening(ann, BASE, status=503)
    await opening(ann, "@mine", status=404)


@pytest.mark.parametrize("may_load", [BASE, "warren/*"])
async def test_no_sampler_is_opened_of_a_base_model_that_none_loads_for_it(
    gateway: Gateway, may_load: str
) -> None:
    beat = heartbeat(
        "s1", WorkerRole.SAMPLER, "other/model", loading=("third/model",), may_load=(may_load,)
    )
    gateway.services.registry.hear(beat)
    told = await opening(Wire(gateway.ann), BASE, status=404)
    assert told["detail"] == f"No sampler offers {BASE}; online: other/model."


async def test_a_sampler_is_opened_while_its_base_model_is_loaded_or_comes_back(
    gateway: Gateway,
) -> None:
    ann, registry = Wire(gateway.ann), gateway.services.registry
    other = partial(heartbeat, "s2", WorkerRole.SAMPLER, "other/model")
    registry.hear(other())
    await opening(ann, BASE, status=404)
    registry.hear(other(loading=(BASE,)))
    await opening(ann, BASE, status=200)
    registry.hear(other())
    await opening(ann, BASE, status=200)


async def test_a_sampler_is_opened_of_a_base_model_that_was_trained(gateway: Gateway) -> None:
    ann = Wire(gateway.ann)
    await model_of(ann)
    await opening(ann, BASE, status=503)

    def publish(session: Session) -> None:
        session.exec(update(Model).values(policy_version=1))

    await gateway.store.transact(publish)
    await opening(ann, BASE, status=200)
