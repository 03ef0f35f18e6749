"""Which test shows what of which ecosystem: `@shows("ORS client", "tools")`, and the table that is made of it.

`--ecosystem-table PATH` writes into the page at PATH, between its two marks, what the tests of this session
showed: a cell counts if every test that shows it has passed. Rows of ecosystems that this session did not try stay: run all
tests of one.
"""

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.ecosystems.table import Shown, written

_shown = pytest.StashKey[Shown]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--ecosystem-table", type=Path, help="page to write the table into")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_shown] = Shown()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" or report.failed:
        for mark in item.iter_markers("shows"):
            ecosystem, *features = map(str, mark.args)
            item.config.stash[_shown].note(ecosystem, features, passed=report.passed)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    page: Path | None = session.config.getoption("ecosystem_table", None)
    if page is not None:
        page.write_text(written(page.read_text(), session.config.stash[_shown]))
