"""The table of docs/ecosystems.md."""

import pytest
from tests.ecosystems.table import BEGIN, COLUMNS, END, Shown, written


def shown_at(commit: str) -> Shown:
    return Shown(commit, lambda ecosystem: f"package-of-{ecosystem} 1.0")


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.split("|")[1:-1]]


def test_a_cell_counts_if_every_test_that_shows_it_has_passed() -> None:
    shown = shown_at("today")
    shown.note("B", ["tools", "tasks"], passed=True)
    shown.note("B", ["tools"], passed=False)
    shown.note("A", ["tools"], passed=True)
    assert cells(shown.rows["A"])[:3] == ["A", "", "yes"]
    assert cells(shown.rows["B"])[:3] == ["B", "yes", ""]
    with pytest.raises(KeyError, match="magic"):
        shown.note("A", ["magic"], passed=True)


def test_a_cell_tells_whether_a_killed_episode_goes_on_or_is_begun_once_more() -> None:
    shown = shown_at("today")
    shown.note("A", ["foreign process killed"], passed=True)
    shown.note("B", ["foreign process killed: begun once more", "env worker killed"], passed=True)
    shown.note("C", ["foreign process killed: begun once more"], passed=False)
    shown.note("D", ["foreign process killed: begun once more"], passed=True)
    shown.note("D", ["foreign process killed"], passed=True)
    worker, foreign = COLUMNS.index("env worker killed"), COLUMNS.index("foreign process killed")
    told = {name: cells(row)[1:] for name, row in shown.rows.items()}
    assert {name: (row[worker], row[foreign]) for name, row in told.items()} == {
        "A": ("", "goes on"),
        "B": ("goes on", "begun once more"),
        "C": ("", ""),
        "D": ("", "begun once more, goes on"),
    }


def test_a_run_of_some_ecosystems_keeps_the_rows_of_the_others_and_when_they_were_shown() -> None:
    first, second = shown_at("yesterday"), shown_at("today")
    for ecosystem in ("C", "A", "B"):
        first.note(ecosystem, ["tasks"], passed=True)
    second.note("B", ["tasks"], passed=False)
    before = written(f"{BEGIN}\n{END}", first)
    rows = [cells(row) for row in written(before, second).splitlines()[3:-1]]
    assert [(row[0], row[1], *row[-2:]) for row in rows] == [
        ("A", "yes", "package-of-A 1.0", "yesterday"),
        ("B", "", "package-of-B 1.0", "today"),
        ("C", "yes", "package-of-C 1.0", "yesterday"),
    ]
    assert {len(row) for row in rows} == {1 + len(COLUMNS)}


def test_the_page_keeps_what_stands_around_its_table() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nbehind\n"
    once = written(page, shown_at("today"))
    assert once.startswith(f"before\n{BEGIN}\n| | {COLUMNS[0]} |")
    assert once.endswith(f"\n{END}\nbehind\n")
    assert "old" not in once
    assert written(once, shown_at("tomorrow")) == once
