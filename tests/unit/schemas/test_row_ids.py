"""What rows of data call themselves."""

import pytest

from warren_schemas.datasets.row_ids import row_id
from warren_schemas.ids import MAX_TASK_ID_CHARS


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"task_id": "HumanEval/3", "id": 9}, "HumanEval/3"),
        ({"id": 9, "uid": "ab"}, "9"),
        ({"task_id": "", "id": None, "uid": "ab"}, "ab"),
        ({"unique_id": "test/algebra/1.json"}, "test/algebra/1.json"),
        ({"id": 0}, "0"),
        ({"id": ["a"]}, None),
        ({"question": "?"}, None),
        (("id", "a"), None),
        (7, None),
        ({"id": "x" * 999}, "x" * MAX_TASK_ID_CHARS),
    ],
)
def test_a_row_is_called_by_the_first_of_its_ids(row: object, expected: str | None) -> None:
    assert row_id(row) == expected
