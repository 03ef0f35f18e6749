"""An environment's config keys and splits, and whether it has levels, read from its source without running it.

Invariant: nothing is imported, so that a worker may announce what it would only start for the first
episode; the source is read and not run. What can't be told so (a constructor that is inherited from
another module, or made by a decorator) is left open, and no config is refused for it.
"""

import ast
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from warren_schemas.control import EnvironmentShape
from warren_schemas.text.python_source import syntax_tree

_ROOT = "Env"
"""A base class of this name has no constructor of its own."""
_NO_ARGUMENTS = ast.arguments(
    posonlyargs=[], args=[ast.arg("self")], kwonlyargs=[], kw_defaults=[], defaults=[]
)


def shape_of(name: str, reference: str) -> EnvironmentShape:
    """The shape of the class at `module:Class`, which is hosted under this name."""
    module, _, class_name = reference.partition(":")
    try:
        tree = syntax_tree(_source(module))
    except (OSError, SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return EnvironmentShape(name=name)
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    found = classes.get(class_name)
    if found is None:
        return EnvironmentShape(name=name)
    arguments = _constructor(found, classes)
    return EnvironmentShape(
        name=name,
        keys=arguments and _names(arguments),
        required=_required(arguments) if arguments else (),
        splits=_splits(found),
        has_levels=_has_levels(found, classes),
    )


def _source(module: str) -> str:
    """The text of a module. Raises `LookupError`, `OSError`."""
    path: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    so_far = ""
    for part in module.split("."):
        so_far = f"{so_far}.{part}" if so_far else part
        spec = PathFinder.find_spec(so_far, path)
        if spec is None:
            raise LookupError(module)
        path = spec.submodule_search_locations
    if spec is None or spec.origin is None:
        raise LookupError(module)
    return Path(spec.origin).read_text(encoding="utf-8")


def _constructor(found: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> ast.arguments | None:
    """Its `__init__`, perhaps that of a base class in the same module; None where it can't be told."""
    for node in found.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            return node.args if _is_open_to_reading(node, found) else None
    base = _only_base(found)
    if base == _ROOT:
        return _NO_ARGUMENTS
    return _constructor(classes[base], classes) if base in classes else None


def _only_base(found: ast.ClassDef) -> str:
    """The name of what it inherits all else from; empty where that can't be told."""
    bases = [_base_name(base) for base in found.bases]
    return "" if len(bases) != 1 or found.decorator_list else bases[0]


def _is_open_to_reading(node: ast.FunctionDef, found: ast.ClassDef) -> bool:
    return not node.decorator_list and not found.decorator_list and node.args.kwarg is None


def _base_name(base: ast.expr) -> str:
    if isinstance(base, ast.Subscript):  # Env[Problem]
        base = base.value
    if isinstance(base, ast.Attribute):  # warren.Env
        return base.attr
    return base.id if isinstance(base, ast.Name) else ""


def _names(arguments: ast.arguments) -> tuple[str, ...]:
    return tuple(a.arg for a in [*arguments.args[1:], *arguments.kwonlyargs])


def _required(arguments: ast.arguments) -> tuple[str, ...]:
    positional = arguments.args[1:]
    bare = positional[: len(positional) - len(arguments.defaults)]
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return tuple(a.arg for a in [*bare, *(a for a, default in keywords if default is None)])


def _splits(found: ast.ClassDef) -> tuple[str, ...]:
    value = _assigned(found, "splits")
    elements = value.elts if isinstance(value, ast.Tuple | ast.List) else []
    return tuple(str(e.value) for e in elements if isinstance(e, ast.Constant))


def _has_levels(found: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> bool | None:
    """What its body says, or that of a base class in the same module; None where it can't be told."""
    value = _assigned(found, "has_levels")
    if value is not None:
        return bool(value.value) if isinstance(value, ast.Constant) else None
    base = _only_base(found)
    if base == _ROOT:
        return False
    return _has_levels(classes[base], classes) if base in classes else None


def _assigned(found: ast.ClassDef, name: str) -> ast.expr | None:
    """What the body of a class assigns to this name."""
    for node in found.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            return getattr(node, "value", None)
    return None
