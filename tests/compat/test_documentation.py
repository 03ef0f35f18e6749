"""Pages that are written from the code say what it says."""

from tests.compat.golden import CONFIGURATION_PAGE, EXPORTS_PAGE, METRICS_PAGE

from warren_schemas.exports.page import exports_page
from warren_schemas.metrics.page import metrics_page
from warren_schemas.text.reference import config_reference


def test_the_configuration_page_is_up_to_date() -> None:
    assert CONFIGURATION_PAGE.read_text() == config_reference(), "run `make golden`, commit docs/"


def test_the_metrics_page_is_up_to_date() -> None:
    assert METRICS_PAGE.read_text() == metrics_page(), "run `make golden`, commit docs/"


def test_the_page_of_exports_is_up_to_date() -> None:
    assert EXPORTS_PAGE.read_text() == exports_page(), "run `make golden`, commit docs/"
