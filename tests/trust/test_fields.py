"""Every field of a config that can name something has a row in the table, and every row its field."""

from tests.trust.fields import text_fields
from tests.trust.table import ATTACKS, HARMLESS


def test_every_field_that_takes_a_text_has_an_attack_or_a_word_on_why_not() -> None:
    attacked = {field.partition(" (")[0] for field in ATTACKS}
    assert attacked | set(HARMLESS) == text_fields()
    assert not attacked & set(HARMLESS)
