"""YAML as people expect it: the core schema of YAML 1.2, on PyYAML's parser.

PyYAML by itself reads YAML 1.1, where `1e-4` is text, `no` is false, `1:30` is 90 and the second of
two equal keys wins. Here numbers are numbers, only `true` and `false` are booleans, and a key that
is there twice is an error.
"""

import re
from collections.abc import Hashable
from typing import Any, cast

import yaml


class YamlError(ValueError):
    """The text is no YAML; says where and why."""


def parse_yaml(text: str) -> object:
    """The value that the text stands for; None for an empty text. Raises `YamlError`."""
    try:
        return cast("object", yaml.load(text, _CoreLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlError(f"{place}{error.problem}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise YamlError(str(error)) from error


_RESOLVERS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?[0-9]+[eE][-+]?[0-9]+", "-+0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("merge", r"<<", "<"),
)
"""Tag, what it looks like, and the characters that it can start with."""


def _by_first_character() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for tag, pattern, starts in _RESOLVERS:
        resolver = (f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"))
        for character in starts:
            resolvers.setdefault(character, []).append(resolver)
    return resolvers


class _CoreLoader(yaml.SafeLoader):
    yaml_implicit_resolvers = _by_first_character()

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen and isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value} is there twice", key.start_mark
                )
            seen.add(str(key.value))
        return super().construct_mapping(node, deep)
