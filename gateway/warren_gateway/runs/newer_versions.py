"""Runs of a newer gateway on the same store, as while replicas are upgraded one after the other.

Invariant: a row that this version can't read is left to a gateway that can, and is no reason to stop.
"""

from functools import lru_cache
from typing import TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from warren_gateway.store.tables import Run
from warren_schemas.config import TrainConfig
from warren_schemas.http import RunResult

_Model = TypeVar("_Model", bound=BaseModel)


def readable_config(row: Run) -> TrainConfig | None:
    """The run's config; None where it has keys that this version doesn't know."""
    return _config(orjson.dumps(row.config))


def readable_submission(row: Run) -> TrainConfig | None:
    """The config that the run was submitted with."""
    return _config(orjson.dumps(row.submitted or row.config))


def readable_result(row: Run) -> RunResult | None:
    """Likewise what the run came to, or None while it goes on."""
    return None if row.result is None else _readable(RunResult, row.result)


@lru_cache(maxsize=1024)
def _config(stored: bytes) -> TrainConfig | None:
    """Lists show the same runs again and again, and checking a config takes longer than all else of its row."""
    return _readable(TrainConfig, orjson.loads(stored))


def _readable(kind: type[_Model], stored: object) -> _Model | None:
    try:
        return kind.model_validate(stored)
    except ValidationError:
        return None
