"""The command line is a promise: its commands, options and defaults are frozen here.

To change it on purpose: `python -m tests.compat.test_cli_surface` writes the golden file anew; the
difference belongs into the changelog.
"""

import inspect
from pathlib import Path

import pytest
from cyclopts import App, Argument

from warren.cli.app import build, run
from warren.cli.plugins import plugins

GOLDEN = Path(__file__).with_name("cli_surface.txt")


def surface() -> str:
    """Every command with its arguments and options, one line each."""
    return "\n".join(sorted(_lines(build(), "warren"))) + "\n"


def _lines(app: App, path: str) -> list[str]:
    lines: list[str] = []
    for name, command in app.resolved_commands().items():
        if name.startswith("-"):
            continue
        here = f"{path} {name}"
        lines += [here, *(f"{here}  {words}" for words in _parameters(command))]
        lines += _lines(command, here)
    return lines


def _parameters(command: App) -> list[str]:
    if command.default_command is None:
        return []
    words: list[str] = []
    for argument in command.assemble_argument_collection():
        if argument.children or not argument.parse:
            continue
        kind = "argument" if argument.field_info.kind is inspect.Parameter.POSITIONAL_ONLY else ""
        default = "" if argument.required else f"= {_default(argument)}"
        names = [n for n in argument.names if not n.startswith(("--no-", "--empty-"))]
        words.append(" ".join(filter(None, [*names, kind, default])))
    return words


def _default(argument: Argument) -> object:
    """As the help shows it; a default that it does not show may be a path of this machine."""
    show, value = argument.parameter.show_default, argument.field_info.default
    if value is inspect.Parameter.empty or show is False:
        return None
    shown = show(value) if callable(show) else None
    return value if shown is None else shown


def test_the_command_line_is_as_frozen() -> None:
    assert surface() == GOLDEN.read_text(), "see the docstring of this module"


def test_every_program_has_its_command() -> None:
    assert set(plugins()) >= {"up", "demo", "gateway", "gpu-worker", "env-worker"}


COMMANDS = [
    "train", "runs", "runs ls", "runs show", "runs cancel", "workers", "queues", "doctor",
    "up", "demo", "gateway", "gpu-worker", "env-worker",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    build()([*command.split(), "--help"])
    text = capsys.readouterr().out
    assert "For example" in text
    assert f"    warren {command}" in text


def test_no_words_at_all_are_answered_with_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert not run([])
    assert "warren up" in capsys.readouterr().out


if __name__ == "__main__":
    GOLDEN.write_text(surface())
