"""Training by Tinker's clients: models, ops in the order of their numbers, what is saved of them.

Invariants
- An op is accepted whatever is wrong with it, and its future fails: a number that never came would hold all later
  ones up.
- The number of an op, and not what it came with, says which one it is.

Bodies are read here and not handed on as they are: what is wrong with one fails before a trainer has it, and trainers know
one form of op, whoever asks.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from aiohttp import web
from google.protobuf.message import DecodeError

from warren_gateway.api.reading import read_bytes
from warren_gateway.api.route import Call
from warren_gateway.api.services import Services
from warren_gateway.api.tinker.asking import MOST_CHARS, submitted, submitted_as
from warren_gateway.api.tinker.errors import invalid
from warren_gateway.api.tinker.route import op_route
from warren_gateway.settings import StableReinforce
from warren_gateway.tinker.paths import InvalidPath, SavedWeightsPath
from warren_gateway.tinker.results import Noted
from warren_gateway.tinker.tensors import CantTrain
from warren_gateway.tinker.training import asked, size_of, stands_for, targets_of
from warren_gateway.tinker.wire import messages
from warren_schemas.http.trainable import (
    Asking,
    PublishAsked,
    SaveStateAsked,
    SkipAsked,
)
from warren_schemas.tinker.requests import (
    Anything,
    OpAsked,
    OptimStepAsked,
    SaveExternal,
    SaveWeights,
    SaveWeightsForSampler,
)
from warren_schemas.training import OptimStep

_LARGE_BYTES = 16 * 1024
_MANY_SEQUENCES, _MANY_TARGETS = 256, 64 * 1024
_LEAST_EPS = 1e-12


async def forward_backward(call: Call[Anything]) -> web.StreamResponse:
    body = await read_bytes(call.request, _most_bytes(call.services))
    try:
        asks = await _read(body, call.services.tinker.options.tinker_stable_reinforce)
    except DecodeError as error:
        raise invalid("The body is no ForwardBackwardRequest") from error
    noted = Noted(model=asks.model, n_targets=asks.n_targets, stands_for=asks.stands_for)
    return await submitted(call, asks.model, asks.number, asks.op, noted)


def _most_bytes(services: Services) -> int:
    return services.tinker.options.tinker_op_mib * 1024 * 1024


class _LossAsked(NamedTuple):
    model: str
    number: int
    op: Asking
    n_targets: tuple[int, ...] = ()
    stands_for: StableReinforce | None = None


async def _read(body: bytes, stable_reinforce: StableReinforce) -> _LossAsked:
    """In a thread where that takes long. Raises `DecodeError`."""
    if len(body) > _LARGE_BYTES:
        return await asyncio.to_thread(_read_whole, body, stable_reinforce)
    request = messages.ForwardBackwardRequest.FromString(body)
    size = size_of(request)  # which few bytes can make large
    if size.n_sequences > _MANY_SEQUENCES or size.n_targets > _MANY_TARGETS:
        return await asyncio.to_thread(_loss_asked, request, stable_reinforce)
    return _loss_asked(request, stable_reinforce)


def _read_whole(body: bytes, stable_reinforce: StableReinforce) -> _LossAsked:
    return _loss_asked(messages.ForwardBackwardRequest.FromString(body), stable_reinforce)


def _loss_asked(
    request: messages.ForwardBackwardRequest, stable_reinforce: StableReinforce
) -> _LossAsked:
    model, number = request.model_id, request.seq_id
    try:
        op, n_targets = asked(request, stable_reinforce), tuple(targets_of(request))
    except CantTrain as error:
        reason = f"{error}"[:MOST_CHARS]
        skip = SkipAsked(reason=reason, spoils_gradient=not request.forward_only)
        return _LossAsked(model, number, skip)
    n_targets = n_targets if any(n_targets) else ()
    return _LossAsked(model, number, op, n_targets, stands_for(request, stable_reinforce))


async def optim_step(call: Call[OpAsked]) -> web.StreamResponse:
    return await submitted_as(call, OptimStepAsked, _step)


def _step(takes: OptimStepAsked) -> tuple[Asking, Noted]:
    adam, other, noted = takes.adam_params, takes.optimizer_params, Noted(model=takes.model_id)
    if adam is None:
        kind = "of another type" if other is None else other.type
        reason = f"an optimizer {kind} is not offered here; AdamW is (adam_params)"
        return SkipAsked(reason=reason, begins_window=True), noted
    op = OptimStep(
        learning_rate=adam.learning_rate,
        beta1=adam.beta1,
        beta2=adam.beta2,
        eps=max(adam.eps, _LEAST_EPS),
        weight_decay=adam.weight_decay,
        clip_norm=adam.grad_clip_norm,
    )
    return op, noted


async def save_weights(call: Call[OpAsked]) -> web.StreamResponse:
    return await submitted_as(call, SaveWeights, _save)


def _save(takes: SaveWeights) -> tuple[Asking, Noted]:
    def op() -> Asking:
        return SaveStateAsked(
            name=takes.path,
            ttl_s=takes.ttl_seconds,
            overwrite=takes.overwrite,
            metadata=takes.user_metadata,
        )

    path = SavedWeightsPath(takes.model_id, "weights", takes.path)
    return _named(op, takes.path), Noted(model=takes.model_id, path=f"{path}")


async def save_weights_for_sampler(call: Call[OpAsked]) -> web.StreamResponse:
    return await submitted_as(call, SaveWeightsForSampler, _save_for_sampler)


def _save_for_sampler(takes: SaveWeightsForSampler) -> tuple[Asking, Noted]:
    path = SavedWeightsPath(takes.model_id, "sampler_weights", takes.path) if takes.path else None

    def op() -> Asking:
        if path is not None:
            path.require_name()
        return PublishAsked(name=takes.path, ttl_s=takes.ttl_seconds, metadata=takes.user_metadata)

    noted = Noted(
        model=takes.model_id,
        path=f"{path}" if path else None,
        sampler=takes.sampling_session_seq_id,
        kind=takes.kind,
    )
    return _named(op, takes.path or ""), noted


async def save_weights_external(call: Call[OpAsked]) -> web.StreamResponse:
    """What samplers load is in the format of Hugging Face already."""
    return await submitted_as(call, SaveExternal, _save_external)


def _save_external(takes: SaveExternal) -> tuple[Asking, Noted]:
    path = SavedWeightsPath(takes.model_id, "external_weights", takes.path)

    def op() -> Asking:
        return PublishAsked(name=path.stored, ttl_s=takes.ttl_seconds)

    noted = Noted(model=takes.model_id, path=f"{path}", kind="external")
    if takes.age_encryption_recipients:
        reason = "files are not encrypted here; leave age_encryption_recipients out"
        return SkipAsked(reason=reason), noted
    return _named(op, takes.path), noted


def _named(op: Callable[[], Asking], name: str) -> Asking:
    """Something that is saved under a name."""
    try:
        return op()
    except InvalidPath as error:
        return SkipAsked(reason=f"{error}")
    except ValueError:
        return SkipAsked(
            reason=f"{name[:64]} can't be the name of a checkpoint: letters, digits, - and _ first, then"
            " also points, 64 at most, and not op-NUMBER"
        )


ROUTES = (
    op_route(
        "forward_backward",
        forward_backward,
        takes=Anything,
        summary="Compute a loss and its gradient",
        takes_file=True,
        max_body_bytes=_most_bytes,
    ),
    op_route(
        "optim_step",
        optim_step,
        takes=OpAsked,
        summary="Take a step with the gradients so far",
    ),
    op_route(
        "save_weights",
        save_weights,
        takes=OpAsked,
        summary="Save weights and optimizer",
    ),
    op_route(
        "save_weights_external",
        save_weights_external,
        takes=OpAsked,
        summary="Save weights to be downloaded",
    ),
    op_route(
        "save_weights_for_sampler",
        save_weights_for_sampler,
        takes=OpAsked,
        summary="Let samplers have the weights as they are",
    ),
)
