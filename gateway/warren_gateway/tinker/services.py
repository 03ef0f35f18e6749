"""The services that the routes of Tinker's protocol call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from warren_gateway.budgets.pool import Budgets
from warren_gateway.inference.sampler_requests import SamplerRequests
from warren_gateway.registry import Registry
from warren_gateway.settings import GatewayOptions
from warren_gateway.store.store import Store
from warren_gateway.tinker.accounts import Accounts
from warren_gateway.tinker.downloads import Downloads
from warren_gateway.tinker.runs import TrainedModels
from warren_gateway.tinker.samples.answering import Answering, Ask, CantSample
from warren_gateway.tinker.samples.clients import SampleClients
from warren_gateway.tinker.samples.completions import CompletionRows
from warren_gateway.tinker.samples.futures import SampleFutures
from warren_gateway.tinker.samples.rows import SampleRows
from warren_gateway.tinker.sampling import about, question_of, told
from warren_gateway.tinker.sessions import NoSuchSampler, TinkerSessions
from warren_gateway.tinker.used_bases import was_used
from warren_gateway.trainable.copies import Copies
from warren_gateway.trainable.waiters import Waiters
from warren_gateway.usage.limits import OwnerLimits
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.episode import PolicyRef
from warren_schemas.tinker.requests import Prompt, Sample

ParamsT = ParamSpec("ParamsT")
ResultT = TypeVar("ResultT")

LARGE_BYTES = 16 * 1024
"""Of a request."""


@dataclass(frozen=True, slots=True)
class Tinker:
    sessions: TinkerSessions
    models: TrainedModels
    futures: SampleFutures
    copies: Copies
    downloads: Downloads
    accounts: Accounts
    trainable: Callable[[], Sequence[str]]
    """Base models that some live trainer offers."""
    maybe_trainable: Callable[[], Sequence[str]]
    """And those that one will offer once it has loaded them, is told to by the scheduler, or takes work again; empty where
    that isn't known."""
    maybe_sampleable: Callable[[], Sequence[str]]
    """The same of samplers, which the scheduler tells to load nothing for samples."""
    was_used: Callable[[str], Awaitable[bool]]
    """Whether a base model was, so that workers of it may come back. Raises `StoreUnavailable`."""
    n_queued: Callable[[], int]
    """Jobs of all users that wait for a trainer."""
    options: GatewayOptions


async def _off_loop(
    body: bytes, work: Callable[ParamsT, ResultT], *args: ParamsT.args, **kwargs: ParamsT.kwargs
) -> ResultT:
    """In a thread where the body is large: the event loop has others to serve."""
    if len(body) > LARGE_BYTES:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


async def ask_of(takes: Sample, policy: PolicyRef, body: bytes) -> Ask:
    """`takes` is what `body` says. Raises `CantSample`."""
    question = await _off_loop(body, question_of, takes, policy)
    without_prompt = takes.model_copy(update={"prompt": Prompt(chunks=())})
    return Ask(question, partial(told, without_prompt), partial(about, without_prompt, question))


def _possible(beat: Heartbeat) -> set[str]:
    """Base models are loaded for what waits for a trainer, and never for a sample."""
    on_demand = beat.may_load if beat.role is WorkerRole.TRAINER else ()
    return {*beat.offers, *beat.drained_offers, *beat.loading, *on_demand}


def tinker_of(
    store: Store,
    questions: SamplerRequests,
    budgets: Budgets,
    limits: OwnerLimits,
    registry: Registry,
    waiters: Waiters,
    posted: Callable[[], None],
    options: GatewayOptions,
    n_queued: Callable[[], int],
) -> Tinker:
    """`posted` is told of messages in the outbox; `n_queued`: how many jobs wait for a trainer."""
    sessions = TinkerSessions(store)

    def trainable() -> list[str]:
        trainers = registry.alive(WorkerRole.TRAINER)
        return sorted({base for trainer in trainers for base in trainer.offers})

    def maybe_offered(role: WorkerRole) -> list[str]:
        bases = [_possible(one) for one in registry.alive(role)]
        return sorted(set[str]().union(*bases)) if all(bases) else []

    async def asked_again(owner: str, body: bytes) -> Ask:
        takes = await _off_loop(body, Sample.model_validate_json, body)
        try:
            opened = await sessions.sampler(owner, takes.sampling_session_id)
        except NoSuchSampler as error:
            raise CantSample(f"there is no sampler {takes.sampling_session_id}") from error
        return await ask_of(takes, opened.policy, body)

    rows = SampleRows(store, posted)
    budget, asked, answer_s = budgets.answers, budgets.asked, options.tinker_answer_s
    offered = partial(registry.offered, WorkerRole.SAMPLER)
    answering = Answering(questions, offered, budget, asked, rows, waiters, answer_s)
    completions, clients = CompletionRows(store), SampleClients(store)
    futures = SampleFutures(answering, rows, completions, clients, waiters, asked_again)
    return Tinker(
        sessions,
        TrainedModels(store),
        futures,
        Copies(store, posted, limits),
        Downloads(store),
        Accounts(store),
        trainable,
        partial(maybe_offered, WorkerRole.TRAINER),
        partial(maybe_offered, WorkerRole.SAMPLER),
        lambda base_model: store.read(partial(was_used, base_model)),
        n_queued,
        options,
    )
