"""The folders of runs: which there are, and whose.

`run.json` says whose a folder is, and with what config. Invariant: it is there, and whole, before the
journal is.
"""

import logging
from pathlib import Path

from pydantic import ValidationError
from sqlmodel import Session

from warren_gateway.metrics.journal import JOURNAL, is_complete
from warren_gateway.runs.newer_versions import readable_config
from warren_gateway.store.tables import Run
from warren_schemas.ids import RunId
from warren_schemas.tensorboard.about import About

ABOUT = "run.json"

log = logging.getLogger(__name__)


def about(session: Session, run: RunId) -> About | None:
    """As the store knows it; None for a run that was deleted."""
    row = session.get(Run, run)
    if row is None:
        return None
    return About(run=run, name=row.name, created_s=row.created_s, config=readable_config(row))


def describe(folder: Path, told: About) -> None:
    """Write whose folder this is, unless it says so. Raises `OSError`."""
    path = folder / ABOUT
    if path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{ABOUT}.part")
    part.write_text(told.model_dump_json(indent=2))
    part.replace(path)


def incomplete(runs_dir: Path) -> set[RunId]:
    """Runs that were recorded here, and not to their end."""
    folders = [path.parent for path in runs_dir.glob(f"*/{JOURNAL}") if not is_complete(path)]
    return {run for folder in folders if (run := _whose(folder)) is not None}


def _whose(folder: Path) -> RunId | None:
    try:
        return About.model_validate_json((folder / ABOUT).read_bytes()).run
    except (OSError, ValidationError) as error:
        log.warning("%s is no folder of a run: %s", folder, error)
        return None
