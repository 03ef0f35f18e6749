"""The table of docs/ecosystems.md: what of each ecosystem was shown on the real package."""

from collections.abc import Iterable

FEATURES = (
    "tasks", "tools", "images", "several turns", "retries", "secrets", "crash and replay", "evaluation",
)  # fmt: skip
BEGIN, END = "<!-- table -->", "<!-- end of the table -->"


class Shown:
    """Cells that tests have shown, and those that one has not."""

    def __init__(self) -> None:
        self._passed: dict[tuple[str, str], bool] = {}

    def note(self, ecosystem: str, features: Iterable[str], *, passed: bool) -> None:
        """Raises `ValueError` for a feature that is no column."""
        for feature in features:
            FEATURES.index(feature)
            cell = ecosystem, feature
            self._passed[cell] = passed and self._passed.get(cell, True)

    def lines(self) -> list[str]:
        ecosystems = sorted({ecosystem for ecosystem, _ in self._passed})
        head = ["| | " + " | ".join(FEATURES) + " |", "|---" * (len(FEATURES) + 1) + "|"]
        return head + [self._row(ecosystem) for ecosystem in ecosystems]

    def _row(self, ecosystem: str) -> str:
        cells = ["yes" if self._passed.get((ecosystem, f)) else "" for f in FEATURES]
        return f"| {ecosystem} | " + " | ".join(cells) + " |"


def written(page: str, shown: Shown) -> str:
    """The page with this table in place of its own."""
    before, _, rest = page.partition(BEGIN)
    _, _, behind = rest.partition(END)
    return "\n".join([f"{before}{BEGIN}", *shown.lines(), f"{END}{behind}"])
