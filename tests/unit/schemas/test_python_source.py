"""Source is read as a tree, also where another tree is built in the middle."""

import ast
import gc
from collections.abc import Generator
from contextlib import contextmanager

import pytest

from warren_schemas.text.python_source import syntax_tree

SOURCE = "\n".join(f"def f{i}(a, b=[{i}]): return a + b[0]" for i in range(100))


@contextmanager
def trees_built_between(n_trees: int) -> Generator[None]:
    """Another tree is built at each of the next allocations, as another thread may."""
    left = iter(range(n_trees))

    def build(phase: str, _: dict[str, int]) -> None:
        if phase == "start" and next(left, None) is not None:
            ast.parse("1")

    threshold = gc.get_threshold()
    gc.callbacks.append(build)
    gc.set_threshold(1)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(build)


def test_a_tree_that_is_built_while_others_are_is_whole() -> None:
    with trees_built_between(50):
        tree = syntax_tree(SOURCE)
    assert ast.unparse(tree) == ast.unparse(ast.parse(SOURCE))


def test_source_that_is_no_python_is_told() -> None:
    with pytest.raises(SyntaxError):
        syntax_tree("def")
