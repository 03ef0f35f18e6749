"""What a game of TextWorld may hear."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warren_env_worker.environments.textworld.commands import MAX_COMMAND_CHARS, command_in


@pytest.mark.parametrize(
    ("said", "command"),
    [
        ("> go  east", "go east"),
        ('"take\ncoin"', "take coin"),
        ("save-the-world", "save-the-world"),
        ("save", None),
        ("RESTORE", None),
        ("take coin. restart", None),
        ("transcripts", None),
        ("tw-print version", None),
        ("\\s", None),
        ("look\x1b", None),
        ("go " * 200, None),
        ("", None),
    ],
)
def test_a_command_and_none_of_the_interpreter(said: str, command: str | None) -> None:
    assert command_in(said) == command


@given(st.text("gosave \\\n.\x1bQUIT-tw", max_size=120))
def test_it_is_one_legible_line(said: str) -> None:
    command = command_in(said)
    if command is not None:
        assert command.isascii() and command.isprintable() and "\\" not in command
        assert 0 < len(command) <= MAX_COMMAND_CHARS
        assert not {"save", "quit"} & set(command.lower().replace(".", " ").split())
