"""Files of rows: parquet and JSON lines with the same columns.

pyarrow is imported only when it is asked for: a laptop has no need of it. All calls block.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Self

import orjson

from warren_schemas.exports.columns import COLUMNS, Kind
from warren_schemas.exports.rows import row
from warren_schemas.http import TrajectoryView

_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


def json_lines(views: Sequence[TrajectoryView]) -> bytes:
    """One line for each; times in ISO 8601, in UTC."""
    return b"".join(orjson.dumps(row(view), option=_JSON) for view in views)


class JsonLinesFile:
    """Raises `OSError`."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, views: Sequence[TrajectoryView]) -> int:
        self._file.write(json_lines(views))
        return len(views)


class ParquetFile:
    """Rows become durable when it is left.

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

    def write(self, views: Sequence[TrajectoryView]) -> int:
        rows = [row(view) for view in views]
        self._writer.write_table(self._arrow.Table.from_pylist(rows, schema=self._schema))
        return len(rows)


def _schema(arrow: Any) -> Any:
    text, number, whole = arrow.string(), arrow.float64(), arrow.int64()
    flag, count = arrow.bool_(), arrow.int32()
    message = arrow.struct(
        [
            ("role", text),
            ("content", text),
            ("n_images", count),
            ("is_quoted", flag),
            ("branch", count),
        ]
    )
    turn = arrow.struct([("reward", number), ("is_cut", flag), ("branch", count)])
    types: dict[Kind, Any] = {
        "text": text,
        "integer": whole,
        "number": number,
        "boolean": flag,
        "time": arrow.timestamp("us", tz="UTC"),
        # not a list of numbers: pyarrow's reader of JSON mistakes a null at the head of one
        "turns": arrow.list_(turn),
        "numbers by name": arrow.map_(text, number),
        "messages": arrow.list_(message),
        "token ids": arrow.list_(arrow.int32()),
        "mask": arrow.list_(arrow.uint8()),
        "logprobs": arrow.list_(arrow.float32()),
        "versions": arrow.list_(arrow.int32()),
    }
    return arrow.schema([(column.name, types[column.kind]) for column in COLUMNS])
