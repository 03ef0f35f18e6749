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


def line(finding: Finding, width: int = 0) -> str:
    """How it reads; what was looked at is `width` characters wide."""
    return f"  {finding.mark} {finding.what.ljust(width)}  {finding.told}".rstrip()


def verdict(name: str, findings: Sequence[Finding]) -> str:
    n_bad = sum(finding.mark is Mark.BAD for finding in findings)
    n_unknown = sum(finding.mark is Mark.UNKNOWN for finding in findings)
    if n_bad:
        return f"{name}: {n_bad} of {len(findings)} checks failed"
    if n_unknown:
        return f"{name}: nothing wrong was found; {n_unknown} of {len(findings)} checks can't tell"
    return f"{name}: all is well"
