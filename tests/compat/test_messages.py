"""Messages of every version stay as they are: old ones wait in queues and lie in streams."""

from pathlib import Path

import pytest
from tests.compat.golden import MESSAGES, json_schema, message_file
from tests.support.factories import EXAMPLES, to_plain

from warren_schemas.codec.wire import KINDS, decode, encode
from warren_schemas.envelope import Item

RULE = """
The {what} of `{kind}` version {version} changed. Messages of the old form may wait in a queue, and
lie in streams for as long as those are kept.
  - Not meant? Take the change back.
  - Meant? Leave the class as it was for the old messages, give the new form `schema_version = {next}`,
    and let whoever reads them take both.
  - Was version {version} never in a release? Then it may change.
Then run `make golden` and commit the files.
"""

kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.kind)


def rule(what: str, kind: type[Item]) -> str:
    version = kind.schema_version
    return RULE.format(what=what, kind=kind.kind, version=version, next=version + 1)


@kinds
def test_the_schema_is_that_of_its_version(kind: type[Item]) -> None:
    path = message_file(kind).with_suffix(".json")
    assert path.exists(), f"{kind.kind} is new: run `make golden` and commit {path.name}"
    if json_schema(kind) != path.read_bytes():
        pytest.fail(rule("schema", kind))


@kinds
def test_the_bytes_are_those_of_its_version(kind: type[Item]) -> None:
    if encode(EXAMPLES[kind]) != message_file(kind).read_bytes():
        pytest.fail(rule("wire form", kind))


@pytest.mark.parametrize("path", sorted(MESSAGES.glob("*.bin")), ids=lambda path: path.stem)
def test_every_version_that_ever_was_can_still_be_read(path: Path) -> None:
    decoded = decode(path.read_bytes())
    assert decoded.rejected == []
    assert decoded.items


@kinds
def test_what_was_written_reads_as_it_was_meant(kind: type[Item]) -> None:
    decoded = decode(message_file(kind).read_bytes())
    assert [to_plain(item) for item in decoded.items] == [to_plain(i) for i in EXAMPLES[kind]]


def test_there_is_an_example_of_every_kind() -> None:
    assert set(EXAMPLES) == set(KINDS.values())
