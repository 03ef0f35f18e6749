"""Configs and HTTP bodies that a released client sends or reads stay valid."""

import pytest
from pydantic import BaseModel
from tests.compat.golden import http_bodies, http_file, json_schema

RULE = """
The schema of {name} changed. Config files and clients of the last release must keep working: a new
key needs a default, and no key goes or narrows. If that holds, or {name} was never in a release, run
`make golden`, look at the diff of {path}, and commit it with a line in CHANGELOG.md.
"""


@pytest.mark.parametrize("body", http_bodies(), ids=lambda body: body.__name__)
def test_the_schema_is_the_one_that_was_agreed(body: type[BaseModel]) -> None:
    path = http_file(body)
    if not path.exists() or json_schema(body) != path.read_bytes():
        pytest.fail(RULE.format(name=body.__name__, path=path.name))
