"""What came of each step, in a file of JSON lines that is only ever appended to.

Invariants:
- A line is on the disk before anything else happens, so a call that is cut off loses at most the
  figure that it was about to write. A torn last line is left out, and the next one starts below it.
- Figures are those of a step's last attempt: one that is tried again starts with none.
- A step is over when it has ended, or was begun `MAX_ATTEMPTS` times and cut off each time.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

MAX_ATTEMPTS = 2

Scalar = str | int | float | bool | None
Figures = dict[str, Scalar]
Outcome = Literal["done", "failed", "timed out", "left out"]
FINAL: tuple[Outcome, ...] = ("done", "failed", "timed out", "left out")


@dataclass
class Record:
    """All that is known of one step."""

    n_attempts: int = 0
    outcome: Outcome | None = None
    reason: str = ""
    took_s: float = 0.0
    figures: list[Figures] = field(default_factory=list[Figures])

    @property
    def is_over(self) -> bool:
        return self.outcome is not None or self.n_attempts >= MAX_ATTEMPTS


class Ledger:
    def __init__(self, file: Path) -> None:
        self._file = file
        self.records: dict[str, Record] = {}
        file.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text() if file.exists() else ""
        if text and not text.endswith("\n"):
            self._append("\n")
        for line in text.splitlines():
            self._take(line)

    def begin(self, step: str) -> None:
        self._write({"step": step, "event": "begun"})

    def add(self, step: str, figures: Mapping[str, Scalar]) -> None:
        self._write({"step": step, "event": "figures", "figures": dict(figures)})

    def end(self, step: str, outcome: Outcome, took_s: float, reason: str = "") -> None:
        took = round(took_s, 1)
        self._write({"step": step, "event": outcome, "took_s": took, "reason": reason})

    def record(self, step: str) -> Record:
        return self.records.get(step) or Record()

    def found(self, name: str) -> Scalar:
        """The figure of this name that was written last; None: nobody wrote it."""
        values = [f[name] for r in self.records.values() for f in r.figures if name in f]
        return values[-1] if values else None

    def _write(self, entry: dict[str, object]) -> None:
        line = json.dumps({**entry, "at": round(time.time(), 1)})
        self._append(line + "\n")
        self._take(line)

    def _append(self, text: str) -> None:
        with self._file.open("a") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def _take(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:  # torn: its writer was killed
            return
        record = self.records.setdefault(entry["step"], Record())
        match entry["event"]:
            case "begun":
                n_attempts = record.n_attempts + 1
                self.records[entry["step"]] = Record(n_attempts=n_attempts)
            case "figures":
                record.figures.append(entry["figures"])
            case outcome:
                record.outcome = outcome
                record.took_s, record.reason = entry["took_s"], entry["reason"]
