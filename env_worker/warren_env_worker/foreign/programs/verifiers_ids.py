"""The ids of a taskset's tasks, as the programs of both APIs of verifiers tell them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast

MAX_ID_CHARS = 256
MAX_IDS_BYTES = 3 << 20
"""All of them are told in one line, which has 4 MiB."""
FIELDS = ("task_id", "id", "uid", "unique_id")


def listed(given: Iterable[Any]) -> dict[str, Any]:
    """Of each task in turn what it calls itself, or None. Where that is too much, or nobody has one, no id is told."""
    ids = [None if each is None or each == "" else str(each)[:MAX_ID_CHARS] for each in given]
    is_told = any(ids) and len(json.dumps(ids)) <= MAX_IDS_BYTES
    return {"n_tasks": len(ids), "ids": ids if is_told else None}


def ids_of_rows(rows: Any) -> list[Any]:
    """Of a data set of the v0 API. It numbers the rows that have no id, and a number of that kind is none."""
    columns = set(rows.column_names)
    if "src_id" in columns:  # a text that the data calls `example_id`, which v0 renames
        return list(rows["src_id"])
    if "info" in columns:
        found = [id_in(info) for info in rows["info"]]
        if any(each is not None for each in found):
            return found
    numbers = list(rows["example_id"]) if "example_id" in columns else []
    return numbers if numbers != list(range(len(rows))) else [None] * len(rows)


def id_in(info: Any) -> Any:
    """Of an example's `info`, which may be JSON."""
    if isinstance(info, str):
        try:
            info = json.loads(info)
        except ValueError:
            return None
    if not isinstance(info, Mapping):
        return None
    fields = cast("Mapping[str, Any]", info)
    found = (fields.get(name) for name in FIELDS)
    return next((each for each in found if isinstance(each, str | int) and each != ""), None)
