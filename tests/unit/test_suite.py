"""What holds for the tests themselves: they wait by one patience, and assert nothing about time."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PATIENCE = TESTS / "support" / "patience.py"
FILES = sorted(path for path in TESTS.rglob("*.py") if path != PATIENCE)

CLOCKS = re.compile(
    r"(monotonic|perf_counter|process_time)(_ns)?\(\)|loop(\(\))?\.time\(\)|\btime\.time\(\) - [a-z_]"
)
"""A point in time may be compared; how long something took may not."""
LIMITED = {"timeout", "wait_for", "wait"}
"""Functions that end after a time."""
LONGEST_LOOK_S = 1.0
"""A shorter limit is no patience: such a test looks for what must not happen."""
PATIENCE_NAME = re.compile(
    r"_?(PATIENCE|BOOT|READY|SOON|STOP|GRACE|WAIT|BOOT_DEADLINE|STOP_GRACE)_S"
)


def number(node: ast.expr | None) -> float | None:
    is_number = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return float(node.value) if is_number else None  # pyright: ignore


def limit_of(call: ast.Call) -> float | None:
    """The time after which this call gives up, where it is written out."""
    name = ast.unparse(call.func).rpartition(".")[2]
    by_name = next((k.value for k in call.keywords if k.arg == "timeout"), None)
    if by_name is None and name in LIMITED and call.args:
        by_name = call.args[-1]
    return number(by_name)


def is_own_patience(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return (limit_of(node) or 0.0) > LONGEST_LOOK_S
    if not isinstance(node, ast.Assign) or number(node.value) is None:
        return False
    return any(PATIENCE_NAME.fullmatch(ast.unparse(target)) for target in node.targets)


def own_patience(tree: ast.Module) -> list[int]:
    return [getattr(node, "lineno", 0) for node in ast.walk(tree) if is_own_patience(node)]


def read_from_a_clock(tree: ast.Module) -> set[str]:
    """Names whose values come from a clock."""
    assignments = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    return {
        ast.unparse(target)
        for node in assignments
        if CLOCKS.search(ast.unparse(node.value))
        for target in node.targets
    }


def asserted_times(tree: ast.Module) -> Iterator[int]:
    """Asserts that compare what a clock says, at once or by way of a name."""
    read = read_from_a_clock(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            for compared in (n for n in ast.walk(node.test) if isinstance(n, ast.Compare)):
                sides = [compared.left, *compared.comparators]
                names = {ast.unparse(n) for side in sides for n in ast.walk(side)}
                if names & read or any(CLOCKS.search(ast.unparse(side)) for side in sides):
                    yield node.lineno


def found_in(path: Path) -> list[str]:
    tree = ast.parse(path.read_text())
    name = path.relative_to(TESTS)
    patience = [
        f"{name}:{line}: take it from tests/support/patience.py" for line in own_patience(tree)
    ]
    times = [f"{name}:{line}: an assert compares a time" for line in asserted_times(tree)]
    return patience + times


def test_tests_wait_by_one_patience_and_assert_no_times() -> None:
    assert [told for path in FILES for told in found_in(path)] == []


@pytest.mark.parametrize(
    ("code", "n_patience", "n_times"),
    [
        ("async def f():\n    async with asyncio.timeout(60): ...", 1, 0),
        ("async def f():\n    await asyncio.wait_for(g(), 30.0)", 1, 0),
        ("subprocess.run([], timeout=20)", 1, 0),
        ("pytestmark = pytest.mark.timeout(600)", 1, 0),
        ("READY_S = 500.0", 1, 0),
        ("async def f():\n    await asyncio.wait([task], timeout=0.3)", 0, 0),
        ("async def f():\n    async with asyncio.timeout(PATIENCE_S): ...", 0, 0),
        ("began = time.monotonic()\nassert time.monotonic() - began < 2", 0, 1),
        ("taken = loop.time() - began\nassert taken < 2", 0, 1),
        ("assert position.admits(time.time())", 0, 0),
    ],
)
def test_what_is_found(code: str, n_patience: int, n_times: int) -> None:
    tree = ast.parse(code)
    assert len(own_patience(tree)) == n_patience
    assert len(list(asserted_times(tree))) == n_times
