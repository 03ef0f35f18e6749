"""Help texts of commands, read from their source: nothing is imported to print a help page."""

import ast
import re
from importlib.util import find_spec
from pathlib import Path


def docstring(target: str) -> str | None:
    """The docstring of `package.module:function`; None where it can't be found."""
    module, _, name = target.partition(":")
    path = _source(module)
    if path is None:
        return None
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return _prose(ast.get_docstring(node) or "")
    return None


def _prose(text: str) -> str:
    """The docstring without its table of parameters, each paragraph on one line.

    A section headed `Examples` would not be printed; a paragraph is.
    """
    text = re.split(r"^(?:Parameters\n-+|Args:)$", text, flags=re.MULTILINE)[0]
    text = re.sub(r"^Examples?(?::|\n-+)$", "For example:", text, flags=re.MULTILINE)
    return re.sub(r"(?<=[^\s:])\n(?=\S)", " ", text).strip()


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
