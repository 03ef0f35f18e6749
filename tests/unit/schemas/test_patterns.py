"""Patterns of names."""

import pytest

from warren_schemas.text.patterns import is_pattern, names_one


@pytest.mark.parametrize(
    ("pattern", "name", "is_one"),
    [
        ("Qwen/*", "Qwen/Qwen3-0.6B", True),
        ("Qwen/*", "mine/Qwen/Qwen3-0.6B", False),
        ("Qwen/*", "Qwen/", True),
        ("*", "Qwen/Qwen3-0.6B", True),
        ("Qwen/Qwen3-?B", "Qwen/Qwen3-4B", True),
        ("Qwen/Qwen3-?B", "Qwen/Qwen3-14B", False),
        ("a[b].*", "a[b].c", True),
        ("a[b].*", "ab.c", False),
        ("a.b", "a.b", True),
        ("a.b", "axb", False),
    ],
)
def test_what_a_pattern_stands_for(pattern: str, name: str, is_one: bool) -> None:
    assert names_one([pattern], name) is is_one


def test_one_of_several_does() -> None:
    assert names_one(["x", "y/*"], "y/z") and not names_one([], "y/z")
    assert is_pattern("y/*") and is_pattern("y?") and not is_pattern("y[z]")
