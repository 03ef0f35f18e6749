"""What is kept of Tinker's training runs: a client lists it, sets how long it stays, shares it, deletes it."""

import time
from datetime import UTC, datetime

from aiohttp import web

from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.api.tinker.errors import invalid, no_such
from warren_gateway.models.problems import NoSuchKept
from warren_gateway.tinker.paths import InvalidPath, KeptPath
from warren_gateway.tinker.runs import NoSuchTrained, Trained
from warren_schemas.http.trainable import KeptAsked, KeptList, ModelCheckpoint, ModelSnapshot
from warren_schemas.tinker.answers import (
    Cursor,
    Empty,
    Kept,
    KeptAnswer,
    TrainingRun,
    TrainingRuns,
    WeightsInfo,
)
from warren_schemas.tinker.requests import ListAsked, PathNamed, ScopeAsked, TtlAsked
from warren_schemas.training import is_full
from warren_schemas.users.access import KeyScope, ShareRun

MOST_RUNS = 1000

_Calls = Call[Nothing] | Call[ListAsked] | Call[ScopeAsked] | Call[PathNamed] | Call[TtlAsked]


async def list_training_runs(call: Call[ListAsked]) -> web.StreamResponse:
    takes = call.takes
    found, n = await call.parts.tinker.models.listed(
        call.viewer, takes.access_scope, takes.limit, takes.offset
    )
    views = [await _run_view(call, trained) for trained in found]
    cursor = Cursor(offset=takes.offset, limit=takes.limit, total_count=n)
    return reply(TrainingRuns(training_runs=tuple(views), cursor=cursor))


async def show_training_run(call: Call[ScopeAsked]) -> web.StreamResponse:
    return reply(await _run_view(call, await _trained(call, call.request.match_info["training"])))


async def list_run_checkpoints(call: Call[Nothing]) -> web.StreamResponse:
    trained = await _trained(call, call.request.match_info["training"])
    return reply(KeptAnswer(checkpoints=tuple(await _kept(call, trained))))


async def list_checkpoints(call: Call[ListAsked]) -> web.StreamResponse:
    takes = call.takes
    found, _ = await call.parts.tinker.models.listed(call.viewer, "owned", MOST_RUNS, 0)
    every = [kept for trained in found for kept in await _kept(call, trained)]
    page = tuple(every[takes.offset : takes.offset + takes.limit])
    cursor = Cursor(offset=takes.offset, limit=takes.limit, total_count=len(every))
    return reply(KeptAnswer(checkpoints=page, cursor=cursor))


async def delete_checkpoint(call: Call[Nothing]) -> web.StreamResponse:
    trained, asked = await _named(call)
    try:
        await call.parts.models.delete_kept(call.viewer, trained.id, asked)
    except NoSuchKept as error:
        raise _no_checkpoint(call) from error
    return reply(Empty())


async def set_checkpoint_ttl(call: Call[TtlAsked]) -> web.StreamResponse:
    trained, asked = await _named(call)
    try:
        await call.parts.models.set_ttl(call.viewer, trained.id, asked, call.takes.ttl_seconds)
    except NoSuchKept as error:
        raise _no_checkpoint(call) from error
    return reply(Empty())


async def publish_checkpoint(call: Call[Nothing]) -> web.StreamResponse:
    """With the others of its run: what is shared is the run."""
    trained, asked = await _named(call)
    if asked.name not in _names(await call.parts.models.kept(call.viewer, trained.id), asked):
        raise _no_checkpoint(call)
    await call.parts.sharing.share(call.viewer, trained.run.id, ShareRun())
    return reply(Empty())


async def unpublish_checkpoint(call: Call[Nothing]) -> web.StreamResponse:
    trained, _ = await _named(call)
    await call.parts.sharing.unshare(call.viewer, trained.run.id, ShareRun())
    return reply(Empty())


async def weights_info(call: Call[PathNamed]) -> web.StreamResponse:
    try:
        path = KeptPath.parse(call.takes.tinker_path)
    except InvalidPath as error:
        raise invalid(f"{error}") from error
    trained = await _trained(call, path.model)
    if f"{path}" not in {kept.tinker_path for kept in await _kept(call, trained)}:
        raise no_such("checkpoint", f"{path}")
    spec = trained.spec
    return reply(
        WeightsInfo(
            base_model=spec.base_model,
            is_lora=not is_full(spec),
            lora_rank=None if spec.update.kind == "full" else spec.update.rank,
        )
    )


async def _trained(call: _Calls, name: str) -> Trained:
    try:
        return await call.parts.tinker.models.find(call.viewer, name)
    except NoSuchTrained as error:
        raise no_such("training run", name) from error


async def _named(call: Call[Nothing] | Call[TtlAsked]) -> tuple[Trained, KeptAsked]:
    """What the path names, of a run of the caller's own."""
    parts = call.request.match_info
    trained = await _trained(call, parts["training"])
    if not call.viewer.owns(trained.run.owner):
        raise no_such("training run", trained.name)
    kind = "checkpoint" if parts["kind"] == "weights" else "snapshot"
    try:
        return trained, KeptAsked(kind=kind, name=parts["checkpoint"])
    except ValueError as error:
        raise _no_checkpoint(call) from error


def _no_checkpoint(call: Call[Nothing] | Call[TtlAsked]) -> Refusal:
    parts = call.request.match_info
    return no_such("checkpoint", f"{parts['kind']}/{parts['checkpoint']}")


def _names(kept: KeptList, asked: KeptAsked) -> set[str]:
    rows = kept.checkpoints if asked.kind == "checkpoint" else kept.snapshots
    return {row.name for row in rows}


async def _kept(call: _Calls, trained: Trained) -> list[Kept]:
    """What its client has saved, oldest first."""
    kept = await call.parts.models.kept(call.viewer, trained.id)
    saved = [_view(trained, row) for row in kept.checkpoints if not row.is_automatic]
    return saved + [_view(trained, row) for row in kept.snapshots]


def _view(trained: Trained, row: ModelCheckpoint | ModelSnapshot) -> Kept:
    is_training = isinstance(row, ModelCheckpoint)
    path = KeptPath(trained.name, "weights" if is_training else "sampler_weights", row.name)
    return Kept(
        checkpoint_id=path.checkpoint,
        checkpoint_type="training" if is_training else "sampler",
        time=_iso(row.created_s),
        tinker_path=f"{path}",
        size_bytes=row.size_bytes,
        public=trained.is_public,
        user_metadata=row.metadata,
        expires_at=None if row.expires_s is None else _iso(row.expires_s),
    )


async def _run_view(call: _Calls, trained: Trained) -> TrainingRun:
    kept, spec, run = await _kept(call, trained), trained.spec, trained.run
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


_CHECKPOINT = "/api/v1/training_runs/{training}/checkpoints/{kind}/{checkpoint}"

ROUTES = (
    Route(
        "GET",
        "/api/v1/training_runs",
        list_training_runs,
        takes=ListAsked,
        answers=TrainingRuns,
        summary="List your training runs (Tinker-compatible)",
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "GET",
        "/api/v1/training_runs/{training}",
        show_training_run,
        takes=ScopeAsked,
        answers=TrainingRun,
        summary="Show a training run (Tinker-compatible)",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/api/v1/training_runs/{training}/checkpoints",
        list_run_checkpoints,
        takes=Nothing,
        answers=KeptAnswer,
        summary="List what is kept of a training run (Tinker-compatible)",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/api/v1/checkpoints",
        list_checkpoints,
        takes=ListAsked,
        answers=KeptAnswer,
        summary="List what is kept of all of your training runs (Tinker-compatible)",
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "DELETE",
        _CHECKPOINT,
        delete_checkpoint,
        takes=Nothing,
        answers=Empty,
        summary="Delete a checkpoint (Tinker-compatible)",
        scope=KeyScope.SUBMIT,
        errors=(404, 422),
    ),
    Route(
        "PUT",
        f"{_CHECKPOINT}/ttl",
        set_checkpoint_ttl,
        takes=TtlAsked,
        answers=Empty,
        summary="Set how long a checkpoint is kept (Tinker-compatible)",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "POST",
        f"{_CHECKPOINT}/publish",
        publish_checkpoint,
        takes=Nothing,
        answers=Empty,
        summary="Share a checkpoint's training run with all users (Tinker-compatible)",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "DELETE",
        f"{_CHECKPOINT}/publish",
        unpublish_checkpoint,
        takes=Nothing,
        answers=Empty,
        summary="Share a checkpoint's training run no more (Tinker-compatible)",
        scope=KeyScope.SUBMIT,
        errors=(404, 422),
    ),
    Route(
        "POST",
        "/api/v1/weights_info",
        weights_info,
        takes=PathNamed,
        answers=WeightsInfo,
        summary="Show what a checkpoint is of (Tinker-compatible)",
        scope=KeyScope.READ,
        errors=(400, 404, 413, 422),
    ),
)
