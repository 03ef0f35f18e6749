"""Every command that Warren's messages tell people to run is one that the command line understands.

The messages are found in the sources, so one that is new is tested as well. `{…}` in a message, filled
in when it is printed, stands for a word here. What the central ones lead to is followed in
`tests/system/test_hints.py`.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from warren.cli.app import build

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "broker/warren_broker", "deploy/warren_up", "env_worker/warren_env_worker",
    "gateway/warren_gateway", "gpu_worker/warren_gpu_worker", "schemas/warren_schemas", "sdk/warren",
]  # fmt: skip
FILLED_IN = "FILLED-IN"
QUOTED = re.compile(r"`(warren [^`]+)`")
ANNOUNCED = re.compile(rf"(?:: +|  +|^ *{FILLED_IN})(warren [a-z][a-z-]+(?: [^;,(`\s]+)*)")
"""After a colon, in a column of its own, or where only what finds the gateway comes before it."""


def messages(tree: ast.AST) -> Iterator[str]:
    """Strings but docstrings, with a word for what is filled in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"\{\w*\}", FILLED_IN, node.value)
        elif isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else FILLED_IN
                for part in node.values
            )
        else:
            yield from messages(node)


def commands() -> list[str]:
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            if "warren " not in (text := path.read_text()):
                continue  # most files: every tester collects these
            for message in messages(ast.parse(text)):
                found.update(QUOTED.findall(message), ANNOUNCED.findall(message))
    named = (command.strip().rstrip(".") for command in found)
    return sorted(command for command in named if command.split()[1] != FILLED_IN)


def test_there_are_hints_to_follow() -> None:
    assert {"warren up", f"warren runs show {FILLED_IN} --follow"} <= set(commands())


@pytest.mark.parametrize("command", commands())
def test_the_command_line_understands_what_a_message_tells_to_run(command: str) -> None:
    _, *words = shlex.split(command)
    assert words[0] in build() or words[0].startswith("-")
    if len(words) > 1:  # else it is but named
        build().parse_args(words, print_error=False, exit_on_error=False)
