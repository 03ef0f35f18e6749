"""Python source as a syntax tree, in a process with threads.

Invariant: source that is Python is read, whatever other threads read at the same time. Python 3.11 counts
the depth of a tree that it builds per process and not per thread, and reports a `SystemError` for a tree
that is whole when another thread built one meanwhile; the tree is built again.
"""

import ast

_ATTEMPTS = 10


def syntax_tree(source: str) -> ast.Module:
    """The tree of this source. Raises `SyntaxError`, `ValueError`, `RecursionError`, `MemoryError`."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return ast.parse(source)
        except SystemError:
            continue
    return ast.parse(source)
