"""Futures of Tinker's clients, by long poll.

Invariants
- A poll is answered within `HOLD_S`, with 408 where there is nothing yet: the clients come again at once.
- What still waits is told with its reason, and its place in the queue as far as that is known.
- What failed for good is told with 200, for a status of 5xx is asked again without end, and a poll without a pause
  (`errors.as_tinker`).
- The outcomes of ops and samples are in the store: any gateway tells them, also after a restart.
- A sample that was lost with a broker is answered with 410, at which the clients ask it once more.
- Who waits for all samples of a sampler hears of each that has ended, however it has: the clients wait for nothing else.
"""

from aiohttp import web
from pydantic import BaseModel

from warren_gateway.api.authorization import lacks
from warren_gateway.api.openai.refusals import stopping
from warren_gateway.api.route import Call, reply
from warren_gateway.api.tinker.errors import no_such
from warren_gateway.api.tinker.route import tinker_route
from warren_gateway.inference.sampler_requests import AnswersLost
from warren_gateway.tinker.paths import session_of
from warren_gateway.tinker.results import Noted, result_of
from warren_gateway.tinker.runs import NoSuchTrained
from warren_gateway.tinker.samples.completions import Completion, clone_of
from warren_gateway.tinker.samples.futures import NoSuchFuture
from warren_gateway.tinker.samples.rows import FailedSample
from warren_gateway.tinker.samples.waiting import waits_for
from warren_gateway.tinker.sessions import NoSuchSampler, NoSuchSession
from warren_gateway.trainable.outcomes import Done, Failed, Pending
from warren_gateway.trainable.problems import NoSuchFuture as NoSuchOp
from warren_gateway.trainable.submitting import FUTURE
from warren_schemas.control import WorkerRole
from warren_schemas.episode import PolicyRef
from warren_schemas.tinker.answers import (
    ModelCreated,
    ResultFailed,
    ResultPending,
    SampleFailed,
    SampleFinished,
    SamplesCompleted,
    StateLoaded,
)
from warren_schemas.tinker.requests import CompletedAsked, FutureNamed
from warren_schemas.users.access import KeyScope

HOLD_S = 30.0
PROTOBUF = "application/x-protobuf"
_GONE = 410


async def retrieve_future(call: Call[FutureNamed]) -> web.StreamResponse:
    name = call.takes.request_id
    if name.startswith(FUTURE):
        _require_scope(call, KeyScope.SUBMIT)
        return await _of_an_op(call, name)
    if (made := _of_a_new_model(name)) is not None:
        return reply(made)
    _require_scope(call, KeyScope.INFER)
    try:
        outcome = await call.services.tinker.futures.outcome(call.owner, name, within_s=HOLD_S)
    except NoSuchFuture as error:
        raise no_such("future", name, _GONE) from error
    except AnswersLost as error:
        raise stopping() from error
    if outcome is None:
        return reply(await _waiting_sample(call, name), 408)
    if isinstance(outcome, FailedSample):
        return reply(failed(outcome.reason, is_users=outcome.is_users))
    return web.Response(body=outcome, content_type=PROTOBUF)


async def retrieve_futures(call: Call[CompletedAsked]) -> web.StreamResponse:
    """Which samples are done; each outcome is fetched by its name."""
    _require_scope(call, KeyScope.INFER)
    takes, tinker = call.takes, call.services.tinker
    sampler = takes.target.sampling_session_id
    try:
        await tinker.sessions.sampler(call.owner, sampler)
    except NoSuchSampler as error:
        raise no_such("sampler", sampler) from error
    within_s = HOLD_S if takes.timeout is None else min(HOLD_S, takes.timeout)
    clone = (sampler, takes.target.cloned_sampler_id)
    found = await tinker.futures.completed(clone, takes.prev_cursor, within_s=within_s)
    completions = tuple(_completion(one) for one in found.completions)
    return reply(SamplesCompleted(completions=completions, cursor=found.newest))


def _completion(one: Completion) -> SampleFinished | SampleFailed:
    if one.n_bytes is None:
        return SampleFailed(request_id=one.name)
    return SampleFinished(request_id=one.name, response_payload_uncompressed_size=one.n_bytes)


def _require_scope(call: Call[FutureNamed] | Call[CompletedAsked], asked_with: KeyScope) -> None:
    """Whoever may ask for such a future may have it, and whoever may read. Raises `Refusal`."""
    if not (call.caller.may(asked_with) or call.caller.may(KeyScope.READ)):
        raise lacks(call.caller, asked_with)


def _of_a_new_model(name: str) -> BaseModel | None:
    """A model is made before its future is told, so that this says only what the future is named after."""
    model, _, what = name.rpartition(":")
    if session_of(model) is None:
        return None
    match what:
        case "create":
            return ModelCreated(model_id=model)
        case "load":
            return StateLoaded(path=None, model_id=model)
        case _:
            return None


async def _of_an_op(call: Call[FutureNamed], name: str) -> web.StreamResponse:
    try:
        outcome = await call.services.models.outcome(call.viewer, name, HOLD_S)
    except NoSuchOp as error:
        raise no_such("future", name, _GONE) from error
    if isinstance(outcome, Pending):
        return reply(_waiting(outcome), 408)
    if isinstance(outcome, Failed):
        return reply(failed(outcome.reason, is_users=outcome.category == "user"))
    noted = Noted.model_validate(outcome.request.asked.extra or {})
    told = result_of(outcome, noted, await _opened(call, outcome, noted))
    if isinstance(told, bytes):
        return web.Response(body=told, content_type=PROTOBUF)
    return reply(told)


def _waiting(pending: Pending) -> ResultPending:
    """With why, and how many ops of the model come first."""
    before = f"; ops of the model that come first: {pending.n_ahead}" if pending.n_ahead else ""
    return ResultPending(
        request_id=pending.request.id,
        queue_state="active" if pending.is_moving else "paused_capacity",
        queue_state_reason=f"{pending.reason}{before}",
    )


async def _waiting_sample(call: Call[FutureNamed], name: str) -> ResultPending:
    """With why where it can't be with a sampler yet, as far as this gateway knows."""
    parts, (sampler, _) = call.services, clone_of(name)
    try:
        opened = await parts.tinker.sessions.sampler(call.owner, sampler)
    except NoSuchSampler:
        return ResultPending(request_id=name)
    base_model = opened.policy.base_model
    n_ahead = parts.tinker.futures.n_ahead(name, base_model)
    samplers = parts.registry.alive(WorkerRole.SAMPLER)
    reason = waits_for(base_model, n_ahead, samplers, parts.served.advice)
    if reason is None:
        return ResultPending(request_id=name)
    return ResultPending(request_id=name, queue_state="paused_capacity", queue_state_reason=reason)


async def _opened(call: Call[FutureNamed], done: Done, noted: Noted) -> str | None:
    """The sampler of what was published for it alone, in the session of the model's owner, whoever asks; opening it again
    changes nothing. Raises `Refusal` where the session is gone."""
    policy, session = done.outcome.policy, session_of(noted.model)
    if noted.sampler is None or policy is None or session is None:
        return None
    tinker = call.services.tinker
    try:
        trained = await tinker.models.find(call.viewer, noted.model)
        ref = PolicyRef(
            model=trained.id,
            base_model=trained.model.base_model,
            min_version=policy.version,
            url=policy.url,
            pinned=noted.kind == "snapshot",
        )
        opening = tinker.sessions.open_sampler(trained.run.owner, session, noted.sampler, ref)
        return (await opening).id
    except (NoSuchTrained, NoSuchSession) as error:
        raise no_such("future", done.request.id, _GONE) from error


def failed(reason: str, *, is_users: bool) -> ResultFailed:
    return ResultFailed(error=reason, category="user" if is_users else "server")


ROUTES = (
    tinker_route(
        "POST",
        "retrieve_future",
        retrieve_future,
        takes=FutureNamed,
        answers=ResultFailed,
        summary="Wait for a future up to 30 s",
        also_answers=PROTOBUF,
        ends_with_client=True,
        errors=(403, 408, 410, 429),
        is_routine=True,
    ),
    tinker_route(
        "POST",
        "retrieve_futures",
        retrieve_futures,
        takes=CompletedAsked,
        answers=SamplesCompleted,
        summary="Wait up to 30 s until any sample of a sampler is done",
        ends_with_client=True,
        errors=(403, 404, 429),
        is_routine=True,
    ),
)
