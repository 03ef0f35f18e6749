"""Trajectories as rows of a table, for parquet files: one row for each, its tokens as lists.

pyarrow is imported only when it is asked for: a laptop has no need of it.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from warren_schemas.episode import Completed
from warren_schemas.http import TrajectoryView


class ParquetFile:
    """A file being written; rows become durable with `close`. All calls block.

    Raises `ModuleNotFoundError` where pyarrow is not installed, `OSError`.
    """

    def __init__(self, path: Path) -> None:
        self._arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
        self._schema = _schema(self._arrow)
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    @staticmethod
    def read(path: Path) -> list[dict[str, object]]:
        """All rows of a file."""
        parquet: Any = import_module("pyarrow.parquet")
        return parquet.read_table(path).to_pylist()

    def write(self, views: Sequence[TrajectoryView]) -> None:
        rows = [row(view) for view in views]
        self._writer.write_table(self._arrow.Table.from_pylist(rows, schema=self._schema))


def row(view: TrajectoryView) -> dict[str, object]:
    """The columns of one trajectory."""
    item = view.trajectory
    spec, transcript, outcome = item.spec, item.transcript, item.outcome
    is_completed = isinstance(outcome, Completed)
    return {
        "offset": view.offset,
        "fate": view.fate,
        "advantage": view.advantage,
        "run": item.envelope.run,
        "group": spec.group,
        "member": spec.member,
        "attempt": item.envelope.attempt,
        "purpose": spec.purpose.value,
        "environment": spec.environment,
        "task_split": spec.task.split,
        "task_index": spec.task.index,
        "seed": spec.seed,
        "reward": outcome.reward if is_completed else None,
        "truncated": outcome.truncated if is_completed else None,
        "failure": None if is_completed else outcome.kind.value,
        "reason": None if is_completed else outcome.reason,
        "started_s": item.started_s,
        "ended_s": item.ended_s,
        "worker": item.worker,
        "messages": [message.model_dump() for message in transcript.messages],
        "turn_rewards": [turn.reward for turn in transcript.turns],
        "ids_T": transcript.tokens.ids_T,
        "mask_T": transcript.tokens.mask_T,
        "logprobs_T": transcript.tokens.logprobs_T,
        "versions_T": transcript.tokens.versions_T,
    }


def _schema(arrow: Any) -> Any:
    text, number, whole = arrow.string(), arrow.float64(), arrow.int64()
    message = arrow.struct([("role", text), ("content", text)])
    columns = {
        "offset": whole, "fate": text, "advantage": number, "run": text, "group": text,
        "member": whole, "attempt": whole, "purpose": text, "environment": text,
        "task_split": text, "task_index": whole, "seed": whole, "reward": number,
        "truncated": arrow.bool_(), "failure": text, "reason": text, "started_s": number,
        "ended_s": number, "worker": text, "messages": arrow.list_(message),
        "turn_rewards": arrow.list_(number), "ids_T": arrow.list_(arrow.int32()),
        "mask_T": arrow.list_(arrow.uint8()), "logprobs_T": arrow.list_(arrow.float32()),
        "versions_T": arrow.list_(arrow.int32()),
    }  # fmt: skip
    return arrow.schema(list(columns.items()))
