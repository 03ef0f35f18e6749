"""Pages that are written from the code, or name what is in it, say what it says."""

import re
from typing import get_args

from tests.compat.golden import CONFIGURATION_PAGE, EXPORTS_PAGE, METRICS_PAGE

from warren_schemas.config import AdvantageKind, PolicyLoss
from warren_schemas.config_files.reference import config_reference
from warren_schemas.exports.page import exports_page
from warren_schemas.metrics.page import metrics_page

ALGORITHMS_PAGE = CONFIGURATION_PAGE.with_name("algorithms.md")


def test_the_configuration_page_is_up_to_date() -> None:
    assert CONFIGURATION_PAGE.read_text() == config_reference(), "run `make golden`, commit docs/"


def test_the_configuration_page_has_defaults_in_yaml_and_all_choices() -> None:
    page = config_reference()
    assert re.findall(r"^\| `\w+` \| `(?:True|False|None|\w+=[^`]*|\[')", page, re.MULTILINE) == []
    for row in (
        "| `shuffle` | `true` |", "| `score` | `number` |", '| `after` | `""` |', "| `config` | `{}` |",
        "is divided by. One of `tokens`, `episodes`, `none`. |", "## environments.splits.NAME",
        "empty takes all. Any of `trained`, `evaluated`, `stale`, `failed`, `abandoned`. |",
    ):  # fmt: skip
        assert row in page


def test_the_metrics_page_is_up_to_date() -> None:
    assert METRICS_PAGE.read_text() == metrics_page(), "run `make golden`, commit docs/"


def test_the_page_of_exports_is_up_to_date() -> None:
    assert EXPORTS_PAGE.read_text() == exports_page(), "run `make golden`, commit docs/"


def test_the_page_of_algorithms_has_a_row_for_each_loss_and_each_advantage() -> None:
    losses = {loss.model_fields["kind"].default for loss in get_args(get_args(PolicyLoss)[0])}
    assert _first_column("## Losses") == losses
    assert _first_column("## Advantages without a critic") == set(AdvantageKind)


def _first_column(heading: str) -> set[str]:
    """The names in the first column of the table below this heading of docs/algorithms.md."""
    section = ALGORITHMS_PAGE.read_text().partition(f"{heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([a-z_]+)`", section, re.MULTILINE))
