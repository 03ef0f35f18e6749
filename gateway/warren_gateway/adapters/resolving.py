"""From an adapter as a config names it to an exact version, which is what a run records and its trainer reads.

Invariants
- A config that is stored names a version that exists and that its submitter may see, with this very base model, rank,
  scale and modules; it stays until the run is over.
- A run that goes on from a checkpoint has the checkpoint's weights, and needs no adapter any more.
"""

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters import stored
from warren_gateway.adapters.problems import NoSuchAdapter, UnusableAdapter
from warren_gateway.store.tables import AdapterRow
from warren_schemas.adapters.config import AdapterConfig
from warren_schemas.config import LoraUpdate, TrainConfig
from warren_schemas.config.numbers import is_dataset_reference
from warren_schemas.datasets.names import referred

_PATH = "model.update.start_adapter"


def with_adapter(session: Session, viewer: Viewer, config: TrainConfig) -> TrainConfig:
    """The config with an exact reference, and with the adapter's rank, scale and modules. A name that is no
    uploaded adapter's may be one that GPU workers offer.

    Raises `UnusableAdapter`.
    """
    update = config.model.update
    if not isinstance(update, LoraUpdate) or update.start_adapter is None:
        return config
    row = _found(session, viewer, update.start_adapter, is_needed=config.resume_from is None)
    if row is None:
        return config
    if row.base_model != config.model.base:
        raise UnusableAdapter(
            _PATH,
            f"{update.start_adapter} is of {row.base_model}, and model.base is {config.model.base}",
        )
    model = config.model.model_copy(update={"update": _fitting(update, row)})
    return config.model_copy(update={"model": model})


def row_to_start_with(session: Session, config: TrainConfig) -> AdapterRow | None:
    """Of a config that was resolved; None where the weights come from elsewhere."""
    update = config.model.update
    if not isinstance(update, LoraUpdate) or config.resume_from is not None:
        return None
    if "@" not in (update.start_adapter or ""):
        return None
    wanted = referred(update.start_adapter or "")
    query = select(AdapterRow).where(
        col(AdapterRow.is_complete),
        col(AdapterRow.owner) == wanted.owner,
        col(AdapterRow.name) == wanted.name,
        col(AdapterRow.digest) == wanted.digest,
    )
    return session.exec(query).first()


def _found(
    session: Session, viewer: Viewer, reference: str, *, is_needed: bool
) -> AdapterRow | None:
    if not is_dataset_reference(reference):
        return None
    try:
        return stored.find(session, viewer, reference, for_use=True)
    except NoSuchAdapter as error:
        if "@" in reference and is_needed:
            raise UnusableAdapter(_PATH, f"there is no adapter {error}") from error
        return None


def _fitting(update: LoraUpdate, row: AdapterRow) -> LoraUpdate:
    """What was left out is the adapter's; what was given must be."""
    config = AdapterConfig.model_validate(row.config)
    targets = tuple(sorted(row.targets))
    is_sorted = not isinstance(update.targets, str)
    given = {
        "rank": update.rank,
        "alpha": update.alpha,
        "targets": tuple(sorted(update.targets)) if is_sorted else update.targets,
    }
    own = {"rank": config.rank, "alpha": config.alpha, "targets": targets}
    for name, value in given.items():
        if value not in (own[name], LoraUpdate.model_fields[name].default):
            raise UnusableAdapter(
                f"model.update.{name}",
                f"{value} is asked for, and the adapter {row.name} has {own[name]}; leave it out",
            )
    return update.model_copy(update={**own, "start_adapter": stored.reference_of(row)})
