"""The programs that `benchmarks.served` starts by name."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from benchmarks.served.__main__ import ECOSYSTEMS, SIDES, module_of


@pytest.mark.parametrize("ecosystem", ECOSYSTEMS)
@pytest.mark.parametrize("side", SIDES)
def test_each_side_of_each_ecosystem_has_a_program(ecosystem: str, side: str) -> None:
    assert find_spec(module_of(ecosystem, side)) is not None


@pytest.mark.parametrize("program", ECOSYSTEMS.values(), ids=list(ECOSYSTEMS))
def test_each_server_has_a_program(program: Path) -> None:
    assert program.is_file()
