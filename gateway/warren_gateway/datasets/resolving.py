"""From data sets as a config names them to exact versions, which are what a run records and reads.

Invariant: a config that is stored names versions that exist and that its submitter may read, with the splits and the
kind of rows that it needs; they stay until the run is over.
"""

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.datasets import stored
from warren_gateway.datasets.problems import NoSuchDataset, UnusableDataset
from warren_gateway.store.tables import DatasetRow, RunDatasetRow
from warren_schemas.config import EnvironmentConfig, RecordedSource, SftConfig, TrainConfig
from warren_schemas.datasets.names import exact, referred
from warren_schemas.http import DatasetKind, DatasetSplit


def resolved(session: Session, viewer: Viewer, config: TrainConfig) -> TrainConfig:
    """The config with exact references, and with `sft.steps` for `sft.epochs`. Raises `UnusableDataset`."""
    environments = tuple(
        _environment(session, viewer, config, i, environment)
        for i, environment in enumerate(config.environments)
    )
    sft = config.sft
    if sft is not None and sft.dataset is not None:
        sft = _sft(session, viewer, sft, sft.dataset)
    source = config.source
    if isinstance(source, RecordedSource) and source.dataset is not None:
        source = _source(session, viewer, source, source.dataset)
    changes = {"environments": environments, "sft": sft, "source": source}
    return config.model_copy(update=changes)


def note_read(session: Session, run: str, config: TrainConfig) -> None:
    """The run reads these versions, of a config that is resolved."""
    for reference in references(config):
        row = read_row(session, reference)
        session.add(RunDatasetRow(run_id=run, dataset_id=row.id))


def references(config: TrainConfig) -> list[str]:
    """Of the data sets that it names, each once."""
    sft = None if config.sft is None else config.sft.dataset
    source = config.source.dataset if isinstance(config.source, RecordedSource) else None
    named = [sft, source, *(environment.dataset for environment in config.environments)]
    return list(dict.fromkeys(name for name in named if name is not None))


def learns_recorded(session: Session, config: TrainConfig) -> bool:
    """Whether it is fine-tuned on recorded episodes; False where its data set is not resolved."""
    if config.sft is None or config.sft.dataset is None:
        return False
    try:
        return read_row(session, config.sft.dataset).kind == DatasetKind.TRAJECTORIES
    except NoSuchDataset:
        return False


def read_row(session: Session, reference: str) -> DatasetRow:
    """Of an exact reference, whoever may see it. Raises `NoSuchDataset`."""
    wanted = referred(reference)
    row = session.exec(
        select(DatasetRow).where(
            col(DatasetRow.is_complete),
            col(DatasetRow.owner) == wanted.owner,
            col(DatasetRow.name) == wanted.name,
            col(DatasetRow.digest) == wanted.digest,
        )
    ).first()
    if row is None:
        raise NoSuchDataset(reference)
    return row


def _environment(
    session: Session,
    viewer: Viewer,
    config: TrainConfig,
    number: int,
    environment: EnvironmentConfig,
) -> EnvironmentConfig:
    if environment.dataset is None:
        return environment
    path = f"environments.{number}"
    row = _found(session, viewer, environment.dataset, f"{path}.dataset")
    if row.kind == DatasetKind.TRAJECTORIES:
        raise UnusableDataset(
            f"{path}.dataset",
            f"{environment.dataset} holds trajectories, which are no tasks; replay them as source.dataset, or upload"
            " the file with --kind tasks",
        )
    for key in config.played_splits(number):
        _split(row, getattr(environment, key), f"{path}.{key}")
    return environment.model_copy(update={"dataset": exact(row.owner, row.name, row.digest)})


def _sft(session: Session, viewer: Viewer, sft: SftConfig, reference: str) -> SftConfig:
    row = _found(session, viewer, reference, "sft.dataset")
    if row.kind == DatasetKind.TASKS:
        raise UnusableDataset(
            "sft.dataset",
            f"{reference} holds {row.kind}, and fine-tuning takes rows of messages, of prompt and completion, or"
            " trajectories",
        )
    if row.kind == DatasetKind.TRAJECTORIES and sft.roles != SftConfig().roles:
        raise UnusableDataset(
            "sft.roles",
            f"{reference} holds trajectories, of which the sampled tokens are learned; leave it out",
        )
    n_rows = _split(row, sft.split, "sft.split").n_rows
    if sft.evaluation_split is not None:
        _split(row, sft.evaluation_split, "sft.evaluation_split")
    found = sft.with_rows(n_rows, exact(row.owner, row.name, row.digest))
    if (reason := found.unreached_interval) is not None:
        raise UnusableDataset("sft.evaluate_every", reason)
    return found


def _source(
    session: Session, viewer: Viewer, source: RecordedSource, reference: str
) -> RecordedSource:
    row = _found(session, viewer, reference, "source.dataset")
    if row.kind != DatasetKind.TRAJECTORIES:
        raise UnusableDataset(
            "source.dataset",
            f"{reference} holds {row.kind}, and a replay takes trajectories: what `warren trajectories RUN --to FILE`"
            " has exported",
        )
    _split(row, source.split, "source.split")
    return source.model_copy(update={"dataset": exact(row.owner, row.name, row.digest)})


def _found(session: Session, viewer: Viewer, reference: str, path: str) -> DatasetRow:
    """Locked, so that nobody deletes it before the run says that it reads it."""
    try:
        row = stored.find(session, viewer, reference)
    except NoSuchDataset as error:
        raise UnusableDataset(path, f"there is no data set {error}") from error
    if session.get(DatasetRow, row.id, with_for_update=True, populate_existing=True) is None:
        raise UnusableDataset(path, f"there is no data set {reference}")
    return row


def _split(row: DatasetRow, name: str, path: str) -> DatasetSplit:
    splits = stored.splits_of(row)
    found = next((split for split in splits if split.name == name), None)
    if found is None:
        has = ", ".join(split.name for split in splits)
        raise UnusableDataset(path, f"{row.name} has no split {name}; it has: {has}")
    return found
