"""The table of docs/ecosystems.md."""

import pytest
from tests.ecosystems.table import BEGIN, END, FEATURES, Shown, written


def test_a_cell_counts_if_every_test_that_shows_it_has_passed() -> None:
    shown = Shown()
    shown.note("B", ["tools", "tasks"], passed=True)
    shown.note("B", ["tools"], passed=False)
    shown.note("A", ["tools"], passed=True)
    a, b = shown.rows["A"], shown.rows["B"]
    assert [cell.strip() for cell in a.split("|")][1:4] == ["A", "", "yes"]
    assert [cell.strip() for cell in b.split("|")][1:4] == ["B", "yes", ""]
    with pytest.raises(ValueError, match="tuple"):
        shown.note("A", ["magic"], passed=True)


def test_a_run_of_some_ecosystems_keeps_the_rows_of_the_others() -> None:
    first, second = Shown(), Shown()
    for ecosystem in ("C", "A", "B"):
        first.note(ecosystem, ["tasks"], passed=True)
    second.note("B", ["tasks"], passed=False)
    before = written(f"{BEGIN}\n{END}", first)
    rows = [line[:9].rstrip() for line in written(before, second).splitlines()[3:-1]]
    assert rows == ["| A | yes", "| B |  |", "| C | yes"]


def test_the_page_keeps_what_stands_around_its_table() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nbehind\n"
    once = written(page, Shown())
    assert once.startswith(f"before\n{BEGIN}\n| | {FEATURES[0]} |")
    assert once.endswith(f"\n{END}\nbehind\n")
    assert "old" not in once
    assert written(once, Shown()) == once
