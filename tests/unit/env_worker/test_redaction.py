"""Secrets in what is printed: whatever they are and wherever the output is cut, none gets through."""

import os

from hypothesis import example, given
from hypothesis import strategies as st

from warren_env_worker.permissions.reading import ReaderApart
from warren_env_worker.permissions.sealed import Sealed
from warren_env_worker.permissions.secrets import (
    MIN_CHARS,
    Cleaner,
    for_run,
    remember,
    without_run_secrets,
    without_secrets,
)

VALUES = st.text("ab", min_size=1, max_size=9)
SECRETS = st.lists(VALUES, min_size=1, max_size=4, unique=True).map(
    lambda values: {f"S{number}": value for number, value in enumerate(values)}
)
"""Two letters, so that they hold each other, begin like each other and repeat themselves."""


@st.composite
def printed(draw: st.DrawFn) -> tuple[dict[str, str], list[str]]:
    """Secrets, and pieces of what is printed."""
    secrets = draw(SECRETS)
    parts = st.sampled_from([*secrets.values(), "a", "b", "-"])
    text = "".join(draw(st.lists(parts, max_size=8)))
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    return secrets, [text[i:j] for i, j in zip([0, *cuts], [*cuts, len(text)], strict=True)]


PREFIXED = {"SHORT": "abcdef", "LONG": "abcdefghij"}


@given(printed())
@example((PREFIXED, ["abcdef", "ghij"]))
@example((PREFIXED, ["abcdef", "-abcdefgh"]))
@example((PREFIXED, ["abcdefgh"]))
@example(({"INNER": "bcdefg", "OUTER": "abcdefgh"}, ["abcdefg", "h"]))
def test_no_secret_gets_through_in_whatever_pieces_it_comes(
    case: tuple[dict[str, str], list[str]],
) -> None:
    secrets, pieces = case
    for shown in (by_cleaner(secrets, pieces), by_reader(secrets, pieces)):
        assert not [v for v in secrets.values() if len(v) >= MIN_CHARS and v in shown]
    ended = [*pieces, "\n"]
    expected = cut_out(secrets, "".join(ended))
    assert by_cleaner(secrets, ended) == by_reader(secrets, ended) == expected


@given(printed())
def test_a_text_as_a_whole_loses_the_same(case: tuple[dict[str, str], list[str]]) -> None:
    secrets, pieces = case
    with for_run(secrets):
        assert without_run_secrets("".join(pieces)) == cut_out(secrets, "".join(pieces))


def test_a_run_hears_nothing_of_the_secrets_of_others() -> None:
    """What is cut out of its own words would tell it that a guess was right."""
    remember({"ANNS": "hunter22", "BOBS": "hunter33"})
    with for_run({"BOBS": "hunter33"}):
        assert (
            without_run_secrets("no hunter21, hunter22, hunter33")
            == "no hunter21, hunter22, <BOBS>"
        )
    assert without_secrets("hunter22") == "<ANNS>"
    assert without_run_secrets("hunter22") == "<ANNS>"


def by_cleaner(secrets: dict[str, str], pieces: list[str]) -> str:
    cleaner = Cleaner(secrets)
    return (b"".join(cleaner.clean(piece.encode()) for piece in pieces) + cleaner.rest()).decode()


def by_reader(secrets: dict[str, str], pieces: list[str]) -> str:
    source, sink = os.pipe()
    os.set_blocking(source, False)
    try:
        reader = ReaderApart(source, Sealed.of(secrets, {}).lines())
        shown = b""
        for piece in pieces:
            if piece:
                os.write(sink, piece.encode())
                shown += reader.read() or b""
        return (shown + reader.rest()).decode()
    finally:
        os.close(source)
        os.close(sink)


def cut_out(secrets: dict[str, str], text: str) -> str:
    """From left to right, at each place the longest."""
    values = {v: n for n, v in secrets.items() if len(v) >= MIN_CHARS}
    shown, at = "", 0
    while at < len(text):
        found = max((v for v in values if text.startswith(v, at)), key=len, default=None)
        shown += f"<{values[found]}>" if found else text[at]
        at += len(found) if found else 1
    return shown
