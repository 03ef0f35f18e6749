"""Sampling by Tinker's clients: they open samplers, ask, and come for the answers later."""

from functools import partial

from aiohttp import web

from warren_gateway.api.openai.refusals import no_sampler, no_such_model, stopping
from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Nothing, reply
from warren_gateway.api.services import Services
from warren_gateway.api.tinker.errors import invalid, no_such
from warren_gateway.api.tinker.route import tinker_route
from warren_gateway.inference.sampler_requests import AnswersLost
from warren_gateway.inference.served import NoSuchModel, bare
from warren_gateway.tinker.paths import InvalidPath, SavedWeightsPath
from warren_gateway.tinker.runs import NoSuchTrained
from warren_gateway.tinker.services import ask_of
from warren_gateway.tinker.sessions import NoSuchSampler, NoSuchSession, OpenedSampler
from warren_gateway.trainable.submitting import FUTURE
from warren_schemas.base_models.names import is_reference, is_uploaded
from warren_schemas.episode import PolicyRef
from warren_schemas.http import Problem
from warren_schemas.tinker.answers import (
    Empty,
    SampleFuture,
    Sampler,
    SamplingSessionCreated,
)
from warren_schemas.tinker.requests import CreateSamplingSession, FutureNamed, Sample
from warren_schemas.users.access import KeyScope

RETRY_S = 15
"""The clients try this 10 times: long enough for a gateway to hear of samplers, and for most that start."""


async def create_sampling_session(call: Call[CreateSamplingSession]) -> web.StreamResponse:
    takes = call.takes
    policy = await _policy(call)
    try:
        row = await call.services.tinker.sessions.open_sampler(
            call.owner, takes.session_id, takes.sampling_session_seq_id, policy, takes.model_path
        )
    except NoSuchSession as error:
        raise no_such("session", takes.session_id) from error
    return reply(SamplingSessionCreated(sampling_session_id=row.id))


async def _policy(call: Call[CreateSamplingSession]) -> PolicyRef:
    """Of a base model, or of a named snapshot. Raises `Refusal`."""
    takes = call.takes
    if takes.model_path is not None:
        return await _snapshot(call, takes.model_path)
    if takes.base_model is None:
        raise invalid("Tell base_model or model_path")
    try:
        return await call.services.served.policy(call.viewer, takes.base_model)
    except NoSuchModel as error:
        if is_reference(takes.base_model) or is_uploaded(takes.base_model):
            raise no_such_model(takes.base_model) from error
    return await _awaited(call, takes.base_model)


async def _awaited(call: Call[CreateSamplingSession], base_model: str) -> PolicyRef:
    """Of a base model that no sampler offers now: samples wait for one that loads it, or comes back. Any other name is
    wrong, unless nothing is known of samplers yet. Raises `Refusal`."""
    tinker, served = call.services.tinker, call.services.served
    possible = tinker.maybe_sampleable()
    if base_model in possible or await tinker.was_used(base_model):
        return bare(base_model)
    if not possible:
        raise no_sampler(base_model, served.offered, served.advice, retry_after_s=RETRY_S)
    online = ", ".join(base for base in served.offered if not is_uploaded(base)) or "none"
    message = f"No sampler offers {base_model}; online: {online}."
    raise Refusal(404, Problem(code="no_such_model", message=message))


async def _snapshot(call: Call[CreateSamplingSession], text: str) -> PolicyRef:
    """Of the weights that were saved under this path, and of no others. Raises `Refusal`."""
    try:
        path = SavedWeightsPath.parse(text)
        if path.kind != "sampler_weights":
            raise InvalidPath(
                f"{text} is for training; sample from tinker://RUN/sampler_weights/NAME"
            )
        trained = await call.services.tinker.models.find(call.viewer, path.model)
        return await call.services.served.snapshot(call.viewer, trained.id, path.stored)
    except InvalidPath as error:
        raise invalid(f"{error}") from error
    except (NoSuchTrained, NoSuchModel) as error:
        raise no_such("checkpoint", text) from error


async def show_sampler(call: Call[Nothing]) -> web.StreamResponse:
    row = (await _opened(call, call.request.match_info["sampler"])).row
    return reply(Sampler(sampler_id=row.id, base_model=row.base_model, model_path=row.model_path))


async def sample(call: Call[Sample]) -> web.StreamResponse:
    """What can't be sampled is told by the future, as the clients expect it, and that no sampler is there to whoever polls
    for it: it waits for one."""
    takes, futures = call.takes, call.services.tinker.futures
    name = f"{takes.sampling_session_id}:{takes.seq_id}"
    opened = await _opened(call, takes.sampling_session_id)
    await _require_readable(call, opened)
    body = await call.request.read()
    try:
        await futures.ask(call.owner, name, body, partial(ask_of, takes, opened.policy, body))
    except AnswersLost as error:
        raise stopping() from error
    ids = tuple(f"{name}:{number}" for number in range(takes.num_samples))
    return reply(SampleFuture(request_id=name, sample_sequence_ids=ids))


def _most_bytes(services: Services) -> int:
    return services.tinker.options.tinker_prompt_mib * 1024 * 1024


async def _require_readable(call: Call[Sample], opened: OpenedSampler) -> None:
    """A sampler ends with the share that it was opened by. Raises `Refusal`."""
    try:
        await call.services.served.require_readable(call.viewer, opened.policy)
    except NoSuchModel as error:
        raise no_such("sampler", opened.row.id) from error


async def _opened(call: Call[Nothing] | Call[Sample], name: str) -> OpenedSampler:
    try:
        return await call.services.tinker.sessions.sampler(call.owner, name)
    except NoSuchSampler as error:
        raise no_such("sampler", name) from error


async def cancel_future(call: Call[FutureNamed]) -> web.StreamResponse:
    if call.takes.request_id.startswith(FUTURE):
        raise invalid(
            "Ops are applied in their order and can't be taken back; samples can be cancelled"
        )
    await call.services.tinker.futures.cancel(call.owner, call.takes.request_id)
    return reply(Empty())


ROUTES = (
    tinker_route(
        "POST",
        "create_sampling_session",
        create_sampling_session,
        takes=CreateSamplingSession,
        answers=SamplingSessionCreated,
        summary="Open a sampler",
        scope=KeyScope.INFER,
        errors=(404,),
    ),
    tinker_route(
        "GET",
        "samplers/{sampler}",
        show_sampler,
        takes=Nothing,
        answers=Sampler,
        summary="Show a sampler",
        scope=KeyScope.INFER,
        errors=(404,),
    ),
    tinker_route(
        "POST",
        "asample",
        sample,
        takes=Sample,
        answers=SampleFuture,
        summary="Ask a sampler; the answer is a future",
        scope=KeyScope.INFER,
        max_body_bytes=_most_bytes,
        errors=(404, 429),
    ),
    tinker_route(
        "POST",
        "cancel_future",
        cancel_future,
        takes=FutureNamed,
        answers=Empty,
        summary="Want a sample no more",
        scope=KeyScope.INFER,
    ),
)
