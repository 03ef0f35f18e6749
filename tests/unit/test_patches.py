"""What holds for the tests themselves: they pass values to the product, and patch nothing of it.

A patched constant is one that nobody can set, and a patched function one that a test no longer tries. What
is not the product's (the standard library, another package) may be patched where nothing better exists.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def origins(tree: ast.Module) -> dict[str, str]:
    """Where the names of a module come from."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for name in node.names:
                    found[name.asname or name.name.partition(".")[0]] = name.name
            case ast.ImportFrom(module=str(module)):
                for name in node.names:
                    found[name.asname or name.name] = f"{module}.{name.name}"
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if (module := imported_by_name(value)) is not None:
                    found[name] = module
            case _:
                pass
    return found


def imported_by_name(value: ast.expr) -> str | None:
    for node in ast.walk(value):
        match node:
            case ast.Call(func=ast.Name(id="import_module"), args=[ast.Constant(value=str(name))]):
                return name
            case _:
                pass
    return None


def origin_of(target: ast.expr, names: dict[str, str]) -> str | None:
    """The package that a patched object is of; None where that can't be seen."""
    if isinstance(target, ast.Constant):
        return str(target.value)
    while isinstance(target, ast.Attribute | ast.Call):
        target = target.value if isinstance(target, ast.Attribute) else target.func
    return names.get(target.id) if isinstance(target, ast.Name) else None


def patched(tree: ast.Module) -> Iterator[tuple[int, ast.expr]]:
    """Each object of which something is replaced; mocks stand for such an object in any case."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="setattr") | ast.Name(id="setattr"), args=[target, *_]
            ):
                yield node.lineno, target
            case ast.Name(id="mock" | "mocker"):
                yield node.lineno, node
            case _:
                pass


def is_of_others(origin: str | None) -> bool:
    """Not the product's, and not of an object that a test was handed."""
    return origin is not None and not origin.startswith(("warren", "unittest"))


def patches_in(code: str) -> list[int]:
    """The lines in which something of the product is replaced."""
    tree = ast.parse(code)
    names = origins(tree)
    return [line for line, target in patched(tree) if not is_of_others(origin_of(target, names))]


def found_in(path: Path) -> list[str]:
    name = path.relative_to(TESTS)
    return [f"{name}:{line}: pass a value instead" for line in patches_in(path.read_text())]


def test_tests_patch_nothing_of_the_product() -> None:
    files = sorted(TESTS.rglob("*.py"))
    assert [told for path in files for told in found_in(path)] == []


@pytest.mark.parametrize(
    ("code", "n"),
    [
        ("from warren_gateway import probe\nmonkeypatch.setattr(probe, 'ANSWER_S', 1)", 1),
        ("from warren import Client\npatch.setattr(Client, 'run', other)", 1),
        ("import warren_up.site\nmonkeypatch.setattr(warren_up.site.Site, 'run', other)", 1),
        ("monkeypatch.setattr('warren.connection.backoff.FIRST_S', 1)", 1),
        ("from unittest import mock\nmock.patch('warren.run.Run')", 1),
        ("def test(mocker): mocker.patch.object(gateway.store, 'transact')", 1),
        ("from warren import run\nsetattr(run, 'RECONNECT_S', 1)", 1),
        ("def test(gateway): monkeypatch.setattr(gateway.store, 'transact', other)", 1),
        ("import sys\nmonkeypatch.setattr(sys, 'path', [])", 0),
        ("import sys\nmonkeypatch.setitem(sys.modules, 'torch', None)", 0),
        ("files: Any = import_module('fsspec').X\nmonkeypatch.setattr(files, 'mv', fail)", 0),
    ],
)
def test_what_is_found(code: str, n: int) -> None:
    assert len(patches_in(code)) == n
