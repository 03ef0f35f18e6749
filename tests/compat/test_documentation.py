"""The configuration page is written from the schemas and says what they say."""

from tests.compat.golden import CONFIGURATION_PAGE

from warren_schemas.reference import config_reference


def test_the_configuration_page_is_up_to_date() -> None:
    assert CONFIGURATION_PAGE.read_text() == config_reference(), "run `make golden`, commit docs/"
