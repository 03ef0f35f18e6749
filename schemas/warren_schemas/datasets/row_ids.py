"""What a row of data calls itself, in the layouts in use."""

from collections.abc import Mapping
from typing import cast

from warren_schemas.ids import MAX_TASK_ID_CHARS

ID_FIELDS = ("task_id", "id", "uid", "unique_id")


def row_id(row: object) -> str | None:
    """A text or a whole number under one of these names, the first that is there; None for all that is no mapping."""
    if not isinstance(row, Mapping):
        return None
    fields = cast("Mapping[object, object]", row)
    given = (fields.get(name) for name in ID_FIELDS)
    found = next((each for each in given if isinstance(each, str | int) and each != ""), None)
    return None if found is None else str(found)[:MAX_TASK_ID_CHARS]
