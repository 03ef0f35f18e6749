"""Training by Tinker's clients: models, ops in the order of their numbers, what is saved of them.

Invariants
- An op is accepted whatever is wrong with it, and its future fails: a number that never came would hold all later
  ones up.
- The number of an op, and not what it came with, says which one it is.
"""

import asyncio
from collections.abc import Callable

from aiohttp import web
from google.protobuf.message import DecodeError

from warren_gateway.api.reading import read_bytes
from warren_gateway.api.route import Call
from warren_gateway.api.tinker.asking import MOST_CHARS, submitted, submitted_as
from warren_gateway.api.tinker.errors import invalid
from warren_gateway.api.tinker.route import op_route
from warren_gateway.tinker.paths import InvalidPath, KeptPath
from warren_gateway.tinker.results import Noted
from warren_gateway.tinker.tensors import CantTrain
from warren_gateway.tinker.training import asked, targets_of
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

MAX_OP_BYTES = 64 * 1024 * 1024
"""The clients cut what they send into parts of 5 MB."""
_LARGE_BYTES = 64 * 1024
_LEAST_EPS = 1e-12


async def forward_backward(call: Call[Anything]) -> web.StreamResponse:
    body = await read_bytes(call.request, MAX_OP_BYTES)
    try:
        request, op = await _off_loop(_read_loss_op, body)
    except DecodeError as error:
        raise invalid("The body is no ForwardBackwardRequest") from error
    n_targets = tuple(targets_of(request))
    noted = Noted(model=request.model_id, n_targets=n_targets if any(n_targets) else ())
    return await submitted(call, request.model_id, request.seq_id, op, noted)


async def _off_loop(
    read: Callable[[bytes], tuple[messages.ForwardBackwardRequest, Asking]], body: bytes
) -> tuple[messages.ForwardBackwardRequest, Asking]:
    if len(body) > _LARGE_BYTES:
        return await asyncio.to_thread(read, body)
    return read(body)


def _read_loss_op(body: bytes) -> tuple[messages.ForwardBackwardRequest, Asking]:
    request = messages.ForwardBackwardRequest.FromString(body)
    try:
        return request, asked(request)
    except CantTrain as error:
        return request, SkipAsked(
            reason=f"{error}"[:MOST_CHARS], spoils_gradient=not request.forward_only
        )


async def optim_step(call: Call[OpAsked]) -> web.StreamResponse:
    return await submitted_as(call, OptimStepAsked, _step)


def _step(takes: OptimStepAsked) -> tuple[Asking, Noted]:
    adam, other, noted = takes.adam_params, takes.optimizer_params, Noted(model=takes.model_id)
    if adam is None:
        kind = "of another type" if other is None else other.type
        reason = f"an optimizer {kind} is not offered here; AdamW is (adam_params)"
        return SkipAsked(reason=reason), noted
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

    path = KeptPath(takes.model_id, "weights", takes.path)
    return _named(op, takes.path), Noted(model=takes.model_id, path=f"{path}")


async def save_weights_for_sampler(call: Call[OpAsked]) -> web.StreamResponse:
    return await submitted_as(call, SaveWeightsForSampler, _save_for_sampler)


def _save_for_sampler(takes: SaveWeightsForSampler) -> tuple[Asking, Noted]:
    path = KeptPath(takes.model_id, "sampler_weights", takes.path) if takes.path else None

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
    path = KeptPath(takes.model_id, "external_weights", takes.path)

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
        max_body_bytes=MAX_OP_BYTES,
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
