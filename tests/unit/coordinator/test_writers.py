"""Each part of the coordinator's state is written by one folder; see `coordinator.state`."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from warren_gateway import coordinator

WRITERS = {
    "rollouts": ("rollouts/", "replaying/"),
    "learning": ("learning/",),
    "comparison": ("rollouts/group_rewards.py", "state/groups.py"),
    "interruption": ("rollouts/episodes.py",),
    "provenance": ("replaying/",),
    "lease": ("lease/",),
    "waiting": ("waiting.py", "notices/"),
    "alarms": ("alarms.py",),
    "observed": (
        "run_coordinator.py",
        "clients/reading.py",
        "records.py",
        "trainer_search.py",
        "rollouts/queue_depths.py",
        "service.py",
    ),
}
MUTATING = ("append", "clear", "extend", "insert", "pop", "remove", "setdefault", "update")
FOLDER = Path(coordinator.__file__).parent


@pytest.mark.parametrize("part", WRITERS)
def test_a_part_is_written_by_its_own_folder(part: str) -> None:
    writers = {
        name
        for name, targets in _targets().items()
        if any(re.search(rf"(^|\.){part}\.", target) for target in targets)
    }
    assert writers
    assert [name for name in sorted(writers) if not name.startswith(WRITERS[part])] == []


@cache
def _targets() -> dict[str, list[str]]:
    """What each file writes; all parts are looked for in the same."""
    return {
        path.relative_to(FOLDER).as_posix(): [*_written(ast.parse(path.read_text()))]
        for path in FOLDER.rglob("*.py")
    }


def _written(tree: ast.Module) -> Iterator[str]:
    """What is assigned to, deleted, or changed by a method, as text: `state.rollouts.ready`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(called := node.func, ast.Attribute):
            yield from [ast.unparse(called.value)] if called.attr in MUTATING else []
