"""What a page promises of what is shown, held against what was shown.

Numbers and ids differ from run to run: a block of output is compared with `#` for each of them.
"""

import re

_ID = re.compile(r"\b(run|env|gateway)_[0-9a-f]{6,}\b")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_BEFORE = re.compile(r"reward near ([\d.]+) before and near ([\d.]+) after")
_TIME = re.compile(r"[Aa]fter less than (a|\d+) (second|minute)s?")
_LIMITS_S = {"second": 1, "minute": 60}
MAX_LATENESS = 10.0
"""A page's time is one for an idle machine; so many times longer is a lie on any."""
NEAR = 0.2


def shape(text: str) -> str:
    """The words, without what differs each time."""
    return " ".join(_NUMBER.sub("#", _ID.sub(r"\1_#", text)).split())


def assert_shown(expected: str, shown: str) -> None:
    """Each line of `expected` was shown, in their order."""
    rest = [shape(line) for line in shown.splitlines()]
    for line in filter(None, map(shape, expected.splitlines())):
        matching = [number for number, each in enumerate(rest) if line in each]
        assert matching, f"{line!r} was not shown:\n{shown[-3000:]}"
        rest = rest[matching[0] + 1 :]


def assert_rewards(words: str, shown: str) -> None:
    """`a reward near A before and near B after`."""
    promised = _BEFORE.search(" ".join(words.split()))
    if promised is None:
        return
    for when, value in zip(("before", "after"), promised.groups(), strict=True):
        found = re.findall(rf"reward {when} \(greedy\)\s+([\d.]+)", shown)
        assert found, f"no reward {when} was shown:\n{shown[-3000:]}"
        assert abs(float(found[-1]) - float(value)) <= NEAR, f"the reward {when} was {found[-1]}"


def time_told(words: str, taken_s: float) -> str | None:
    """A line for the report. Raises where the page's time is out of all proportion."""
    promised = _TIME.search(" ".join(words.split()))
    if promised is None:
        return None
    limit_s = _LIMITS_S[promised[2]] * (1 if promised[1] == "a" else int(promised[1]))
    assert taken_s <= MAX_LATENESS * limit_s, f"it took {taken_s:.0f} s, not {limit_s}"
    return f"took {taken_s:.0f} s; the page says less than {limit_s} s"


def printed(words: str) -> list[str]:
    """What the words after a block say that it prints."""
    return re.findall(r"[Ii]t prints `([^`]+)`", " ".join(words.split()))
