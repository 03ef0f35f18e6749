"""Which test shows what of which ecosystem: `@shows("ORS client", "tools")`, and the table that is made of it.

`--ecosystem-table PATH` writes into the page at PATH, between its two marks, what the tests of this session
showed, with the versions and the commit that it was shown on: a cell counts if every test that shows it has passed. Rows of
ecosystems that this session did not try stay, with what they were shown on: run all tests of one.
"""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ecosystems.table import Shown, written
from tests.ecosystems.tried import PACKAGES, commit, versions

_shown = pytest.StashKey[Shown]()
_TO_THE_END = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
"""Of a session that was broken off some tests of an ecosystem are missing."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ecosystem-table", type=Path, help="page to write the table into")


def pytest_configure(config: pytest.Config) -> None:
    if _page(config) is not None:
        config.stash[_shown] = Shown(commit(), versions)


def _page(config: pytest.Config) -> Path | None:
    return config.getoption("ecosystem_table", None)


def pytest_itemcollected(item: pytest.Item) -> None:
    for mark in item.iter_markers("shows"):
        if mark.args[0] not in PACKAGES:
            asked = (
                f"{item.nodeid} shows {mark.args[0]}: say in tests/ecosystems/tried.py what that is"
            )
            raise pytest.UsageError(asked)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    shown = item.config.stash.get(_shown, None)
    if shown is not None and (report.when == "call" or report.failed):
        for mark in item.iter_markers("shows"):
            ecosystem, *features = map(str, mark.args)
            shown.note(ecosystem, features, passed=report.passed)
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    page = _page(session.config)
    if page is not None and exitstatus in _TO_THE_END:
        page.write_text(written(page.read_text(), session.config.stash[_shown]))
