"""What a check found, and how it reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Mark(StrEnum):
    GOOD = "✓"
    UNKNOWN = "-"
    """Could not be looked at."""
    BAD = "✗"


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    mark: Mark
    told: str = ""
    """What was seen, and what to do."""


def good(what: str, told: str = "") -> Finding:
    return Finding(what, Mark.GOOD, told)


def bad(what: str, told: str) -> Finding:
    return Finding(what, Mark.BAD, told)


def unknown(what: str, told: str) -> Finding:
    return Finding(what, Mark.UNKNOWN, told)


def report(name: str, findings: Sequence[Finding]) -> str:
    """One line for each finding, and one for all."""
    width = max(len(finding.what) for finding in findings)
    lines = [f"  {f.mark} {f.what.ljust(width)}  {f.told}".rstrip() for f in findings]
    n_bad = sum(finding.mark is Mark.BAD for finding in findings)
    verdict = "all is well" if n_bad == 0 else f"{n_bad} of {len(findings)} checks failed"
    return "\n".join([f"Checking {name}", *lines, f"{name}: {verdict}"])
