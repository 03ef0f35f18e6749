"""What is kept of Tinker's training runs: a client lists it, sets how long it stays, shares it, deletes it."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, reply
from warren_gateway.api.tinker.errors import invalid, no_such
from warren_gateway.api.tinker.route import tinker_route
from warren_gateway.tinker.creating import weights_told
from warren_gateway.tinker.listed_weights import KeptKind, SavedWeightsListing
from warren_gateway.tinker.paths import InvalidPath, Kind, SavedWeightsPath
from warren_gateway.tinker.runs import NoSuchTrained, Trained
from warren_schemas.events import RunState
from warren_schemas.http.trainable import ModelCheckpoint, ModelSnapshot, SavedWeights
from warren_schemas.tinker.answers import (
    Cursor,
    Kept,
    KeptAnswer,
    TrainingRun,
    TrainingRuns,
    WeightsInfo,
)
from warren_schemas.tinker.requests import ListAsked, PathNamed, ScopeAsked, TtlAsked
from warren_schemas.training import is_full
from warren_schemas.users.access import KeyScope

_Calls = Call[Nothing] | Call[ListAsked] | Call[ScopeAsked] | Call[PathNamed] | Call[TtlAsked]


async def list_training_runs(call: Call[ListAsked]) -> web.StreamResponse:
    takes = call.takes
    found, n = await call.services.tinker.models.listed(
        call.viewer, takes.access_scope, takes.limit, takes.offset
    )
    kept = await call.services.models.saved_of([trained.id for trained in found])
    views = [_run_view(trained, _views(trained, kept[trained.id])) for trained in found]
    cursor = Cursor(offset=takes.offset, limit=takes.limit, total_count=n)
    return reply(TrainingRuns(training_runs=tuple(views), cursor=cursor))


async def show_training_run(call: Call[ScopeAsked]) -> web.StreamResponse:
    name = call.request.match_info["training"]
    trained = await _trained(call, name)
    if call.takes.access_scope == "owned" and trained.run.owner != call.owner:
        raise no_such("training run", name)
    return reply(_run_view(trained, await _kept(call, trained)))


async def list_run_checkpoints(call: Call[Nothing]) -> web.StreamResponse:
    trained = await _trained(call, call.request.match_info["training"])
    return reply(KeptAnswer(checkpoints=tuple(await _kept(call, trained))))


async def list_checkpoints(call: Call[ListAsked]) -> web.StreamResponse:
    """The newest first."""
    takes = call.takes
    kept, n = await call.services.tinker.models.listed_kept(
        call.viewer, takes.access_scope, takes.limit, takes.offset
    )
    views = [_view(row.training, row.is_public, row.kind, row) for row in kept]
    cursor = Cursor(offset=takes.offset, limit=takes.limit, total_count=n)
    return reply(KeptAnswer(checkpoints=tuple(views), cursor=cursor))


async def weights_info(call: Call[PathNamed]) -> web.StreamResponse:
    try:
        path = SavedWeightsPath.parse(call.takes.tinker_path)
    except InvalidPath as error:
        raise invalid(f"{error}") from error
    trained = await _trained(call, path.model)
    if f"{path}" not in {kept.tinker_path for kept in await _kept(call, trained)}:
        raise no_such("checkpoint", f"{path}")
    return reply(weights_told(trained.spec))


async def _trained(call: _Calls, name: str) -> Trained:
    try:
        return await call.services.tinker.models.find(call.viewer, name)
    except NoSuchTrained as error:
        raise no_such("training run", name) from error


async def _kept(call: _Calls, trained: Trained) -> list[Kept]:
    return _views(trained, await call.services.models.saved_weights(call.viewer, trained.id))


def _views(trained: Trained, kept: SavedWeights) -> list[Kept]:
    """What its client has saved, oldest first; of a run that is over, what was saved as it ended as well: its client may
    have vanished, and a living run soon replaces such ones."""
    is_over = RunState(trained.run.state).is_final
    name, is_public = trained.name, trained.is_public
    saved = [row for row in kept.checkpoints if is_over or not row.is_automatic]
    return [
        *(_view(name, is_public, "checkpoint", row) for row in saved),
        *(_view(name, is_public, "snapshot", row) for row in kept.snapshots),
    ]


_TYPES: dict[Kind, Literal["training", "sampler", "external"]] = {
    "weights": "training",
    "sampler_weights": "sampler",
    "external_weights": "external",
}


def _view(
    training: str,
    is_public: bool,
    kind: KeptKind,
    row: ModelCheckpoint | ModelSnapshot | SavedWeightsListing,
) -> Kept:
    path = SavedWeightsPath.of(training, kind, row.name)
    return Kept(
        checkpoint_id=path.checkpoint,
        checkpoint_type=_TYPES[path.kind],
        time=_iso(row.created_s),
        tinker_path=f"{path}",
        size_bytes=row.size_bytes,
        public=is_public,
        user_metadata=row.metadata,
        expires_at=None if row.expires_s is None else _iso(row.expires_s),
    )


def _run_view(trained: Trained, kept: Sequence[Kept]) -> TrainingRun:
    spec, run = trained.spec, trained.run
    newest = {row.checkpoint_type: row for row in kept}
    heard_s = (run.client_until_s or time.time()) - (run.client_lease_s or 0.0)
    return TrainingRun(
        training_run_id=trained.name,
        base_model=spec.base_model,
        model_owner=run.owner,
        is_lora=not is_full(spec),
        lora_rank=None if spec.update.kind == "full" else spec.update.rank,
        last_request_time=_iso(max(heard_s, run.created_s)),
        last_checkpoint=newest.get("training"),
        last_sampler_checkpoint=newest.get("sampler"),
        user_metadata=trained.model.metadata_,
    )


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat()


ROUTES = (
    tinker_route(
        "GET",
        "training_runs",
        list_training_runs,
        takes=ListAsked,
        answers=TrainingRuns,
        summary="List your training runs",
        scope=KeyScope.READ,
    ),
    tinker_route(
        "GET",
        "training_runs/{training}",
        show_training_run,
        takes=ScopeAsked,
        answers=TrainingRun,
        summary="Show a training run",
        scope=KeyScope.READ,
        errors=(404,),
    ),
    tinker_route(
        "GET",
        "training_runs/{training}/checkpoints",
        list_run_checkpoints,
        takes=Nothing,
        answers=KeptAnswer,
        summary="List what is kept of a training run",
        scope=KeyScope.READ,
        errors=(404,),
    ),
    tinker_route(
        "GET",
        "checkpoints",
        list_checkpoints,
        takes=ListAsked,
        answers=KeptAnswer,
        summary="List what is kept of all of your training runs",
        scope=KeyScope.READ,
    ),
    tinker_route(
        "POST",
        "weights_info",
        weights_info,
        takes=PathNamed,
        answers=WeightsInfo,
        summary="Show what a checkpoint is of",
        scope=KeyScope.READ,
        errors=(404,),
    ),
)
