"""The table of docs/ecosystems.md: what of each ecosystem was shown on the real package, of which version and when."""

from collections.abc import Callable, Iterable

_SHOWN = {
    "tasks": "yes", "tools": "yes", "images": "yes", "several turns": "yes", "retries": "yes", "secrets": "yes",
    "env worker killed": "goes on", "foreign process killed": "goes on", "evaluation": "yes",
}  # fmt: skip
"""What a cell says of a feature that was shown, unless its mark ends with words of its own: `feature: words`."""
FEATURES = tuple(_SHOWN)
COLUMNS = (*FEATURES, "tried with", "shown at")
_HEAD = ("| | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|")
BEGIN, END = "<!-- table -->", "<!-- end of the table -->"


class Shown:
    """Cells that tests have shown, and those that one has not."""

    def __init__(self, commit: str, versions: Callable[[str], str]) -> None:
        """`versions` tells those of an ecosystem's packages."""
        self._commit = commit
        self._versions = versions
        self._passed: dict[tuple[str, str], bool] = {}
        self._words: dict[tuple[str, str], set[str]] = {}

    def note(self, ecosystem: str, features: Iterable[str], *, passed: bool) -> None:
        """Raises `KeyError` for a feature that is no column."""
        for told in features:
            feature, _, words = told.partition(": ")
            cell = ecosystem, feature
            self._words.setdefault(cell, set()).add(words or _SHOWN[feature])
            self._passed[cell] = passed and self._passed.get(cell, True)

    @property
    def rows(self) -> dict[str, str]:
        """By ecosystem."""
        return {ecosystem: self._row(ecosystem) for ecosystem, _ in self._passed}

    def _row(self, ecosystem: str) -> str:
        cells = [self._cell(ecosystem, feature) for feature in FEATURES]
        cells += [self._versions(ecosystem), self._commit]
        return f"| {ecosystem} | " + " | ".join(cells) + " |"

    def _cell(self, ecosystem: str, feature: str) -> str:
        cell = ecosystem, feature
        return ", ".join(sorted(self._words[cell])) if self._passed.get(cell) else ""


def written(page: str, shown: Shown) -> str:
    """The page with these rows in its table; ecosystems of which nothing was tried keep theirs."""
    before, _, rest = page.partition(BEGIN)
    table, _, behind = rest.partition(END)
    old = [line for line in table.splitlines() if line[:2] == "| " and line not in _HEAD]
    kept = {line.split("|")[1].strip(): line for line in old}
    rows = sorted((kept | shown.rows).items())
    return "\n".join([f"{before}{BEGIN}", *_HEAD, *(row for _, row in rows), f"{END}{behind}"])
