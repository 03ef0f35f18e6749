"""Each key of a config has an effect: turned alone, it makes a difference where the table says so."""

import ast
from functools import cache
from pathlib import Path

import pytest
from tests.support.base_models import base_folder
from tests.unit.effects.keys import all_keys
from tests.unit.effects.page import page
from tests.unit.effects.probes import Bench, Facts, Probe
from tests.unit.effects.table import ACTED_ON, EXCEPTIONS, ROWS, Keys, Row, written

from warren_gpu_worker.base_models import load_base
from warren_schemas.config import TrainConfig

__all__ = ["base_folder"]

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "settings-effects.md"

PROBES = list(dict.fromkeys(row.probe for row in ROWS))


@pytest.fixture(scope="module")
def bench(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(base_folder, load_base(str(base_folder)), tmp_path_factory.mktemp("effects"))


def test_every_key_is_in_the_table_once_or_excepted_with_a_reason() -> None:
    rows = [row.key for row in ROWS]
    assert len(rows) == len(set(rows))
    assert not EXCEPTIONS.keys() & set(rows)
    keys = set(all_keys())
    assert {*rows, *EXCEPTIONS} - keys == set(), "no such key"
    assert keys - {*rows, *EXCEPTIONS} == set(), "say in the table what it changes"


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key)
def test_turning_it_makes_a_difference(row: Row, bench: Bench) -> None:
    before = _config(row.beside)
    after = _config({**row.beside, row.key: row.value})
    assert before != after
    assert _facts(row.probe, before, bench)[row.where] != _facts(row.probe, after, bench)[row.where]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_without_a_change_there_is_no_difference(probe: Probe, bench: Bench) -> None:
    """Else the others would show nothing."""
    assert _facts(probe, _config({}), bench) == probe(_config({}), bench)


@pytest.mark.parametrize(("key", "test"), ACTED_ON.items())
def test_an_order_to_a_worker_is_obeyed_in_the_test_that_is_named(key: str, test: str) -> None:
    assert {row.where for row in ROWS if row.key == key} == {"starts"}
    path, _, name = test.partition("::")
    parsed = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    assert name in {node.name for node in ast.walk(parsed) if isinstance(node, functions)}


def test_the_page_is_written_from_the_table() -> None:
    assert PAGE.read_text() == page(), (
        "python -m tests.unit.effects.page > docs/settings-effects.md"
    )


def _config(keys: Keys) -> TrainConfig:
    return TrainConfig.model_validate(written(keys))


def _facts(probe: Probe, config: TrainConfig, bench: Bench) -> Facts:
    return _once(probe, config.model_dump_json(), bench)


@cache
def _once(probe: Probe, config: str, bench: Bench) -> Facts:
    """Many keys are compared with the same run."""
    return probe(TrainConfig.model_validate_json(config), bench)
