"""The rows of a copy: its run, which is over, its model, which is closed, and what is kept of it."""

import time
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session

from warren_gateway.store.tables import Checkpoint, HistoryRow, Model, Run, SnapshotRow
from warren_gateway.trainable.creating import NO_ENVIRONMENT
from warren_schemas.config import ClientSource, EnvironmentConfig, ModelConfig, TrainConfig
from warren_schemas.events import RunState
from warren_schemas.http.trainable import SavedName
from warren_schemas.ids import new_model_id, new_run_id
from warren_schemas.training import ModelSpec

UNFINISHED = "The copy was never finished: ask for it again, or delete the run"


@dataclass(frozen=True, slots=True)
class CopyAsked:
    model: str
    """The one that the source is kept of."""
    kept: SavedName
    """What is copied; the copy has its name."""
    key: str
    ttl_s: float | None = None
    """How long the copy is kept; None: until it is deleted."""

    @property
    def name(self) -> str:
        """Of the run."""
        between = "/" if self.kept.kind == "checkpoint" else "@"
        return f"copy of {self.model}{between}{self.kept.name}"


def insert_copy(session: Session, owner: str, source: Model, asked: CopyAsked) -> tuple[Run, Model]:
    """Of which nothing is kept yet."""
    spec = ModelSpec.model_validate(source.spec)
    run = _run(owner, spec, asked)
    session.add(run)
    session.flush()
    model = Model(
        id=new_model_id(),
        run_id=run.id,
        base_model=source.base_model,
        spec=source.spec,
        is_closed=True,
        is_clients=True,
        metadata_=source.metadata_,
    )
    session.add(model)
    session.add(HistoryRow(run_id=run.id, state=run.state, at_s=run.created_s, reason=run.error))
    session.flush()
    return run, model


def _run(owner: str, spec: ModelSpec, asked: CopyAsked) -> Run:
    config = TrainConfig(
        name=asked.name,
        model=ModelConfig(
            base=spec.base_model, update=spec.update, deterministic=spec.deterministic
        ),
        environments=(EnvironmentConfig(name=NO_ENVIRONMENT),),
        source=ClientSource(),
        seed=spec.seed,
    )
    return Run(
        id=new_run_id(),
        owner=owner,
        name=asked.name,
        idempotency_key=asked.key,
        config=config.model_dump(mode="json"),
        state=RunState.FAILED,
        error=UNFINISHED,
        n_steps=0,
        created_s=time.time(),
    )


def kept_like(
    source: Checkpoint | SnapshotRow, model: str, url: str, now_s: float, ttl_s: float | None
) -> Checkpoint | SnapshotRow:
    """The same of another model, in another folder."""
    changed: dict[str, Any] = {
        "model_id": model,
        "url": url,
        "created_s": now_s,
        "expires_s": None if ttl_s is None else now_s + ttl_s,
    }
    if isinstance(source, Checkpoint):
        changed["is_automatic"] = False
    return type(source)(**source.model_dump() | changed)
