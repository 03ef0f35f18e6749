"""Help texts of commands, read from their source: nothing is imported to print a help page."""

import ast
import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path


def docstring(target: str) -> str | None:
    """The docstring of `package.module:function`, also of one that is imported there; None where it can't be found."""
    module, _, name = target.partition(":")
    if (tree := _tree(module)) is None:
        return None
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return _prose(ast.get_docstring(node) or "")
        if isinstance(node, ast.ImportFrom) and name in (a.asname or a.name for a in node.names):
            return docstring(f"{node.module}:{name}")
    return None


def module_docstring(module: str) -> str:
    """The docstring of a module of ours."""
    return _prose(ast.get_docstring(_required(module)) or "")


def exported(module: str) -> list[str]:
    """The names in the `__all__` of a module of ours."""
    for node in _required(module).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
    raise LookupError(f"{module} has no __all__")


def _prose(text: str) -> str:
    """The docstring without its table of parameters, each paragraph on one line.

    A section headed `Examples` would not be printed; a paragraph is.
    """
    text = re.split(r"^(?:Parameters\n-+|Args:)$", text, flags=re.MULTILINE)[0]
    text = re.sub(r"^Examples?(?::|\n-+)$", "For example:", text, flags=re.MULTILINE)
    return re.sub(r"(?<=[^\s:])\n(?=\S)", " ", text).strip()


def _required(module: str) -> ast.Module:
    if (tree := _tree(module)) is None:
        raise LookupError(f"{module} is not installed")
    return tree


@cache
def _tree(module: str) -> ast.Module | None:
    path = _source(module)
    return None if path is None else ast.parse(path.read_text(encoding="utf-8"))


def _source(module: str) -> Path | None:
    try:
        spec = find_spec(
            module
        )  # imports the packages above the module, which hold docstrings only
    except ImportError:
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)
