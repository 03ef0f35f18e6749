"""What `warren` exports is listed once at run time and once for type checkers: both are the same."""

import ast
from collections.abc import Iterator
from pathlib import Path

import warren

SOURCE = Path(warren.__file__)


def test_type_checkers_see_what_can_be_imported() -> None:
    (typed,) = (node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    listed = {*_listed(typed), *_exported_whole(typed)}
    assert listed == set(warren.__all__)
    assert listed <= {"__version__", *_imported(typed), *_exported_whole(typed)}


def _listed(typed: ast.If) -> Iterator[str]:
    for node in typed.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from ast.literal_eval(node.value)


def _imported(typed: ast.If) -> Iterator[str]:
    for node in typed.body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _exported_whole(typed: ast.If) -> Iterator[str]:
    """The names of modules that are imported with a star."""
    for node in typed.body:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            module = __import__(str(node.module), fromlist=["__all__"])
            yield from module.__all__
