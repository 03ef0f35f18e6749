"""What the docstrings under fields say is in the JSON schema."""

from typing import Annotated

from pydantic import Field

from warren_schemas.base import Frozen
from warren_schemas.fields.meanings import meanings


class Base(Frozen):
    n_tokens: int = 0
    """How many
    there are."""
    kind: str = "base"
    """Of all."""


class Derived(Base):
    kind: str = "derived"
    """Of one."""
    told: Annotated[int, Field(description="By itself.")] = 0
    """Not this."""
    silent: int = 0


def test_the_text_is_that_of_the_newest_class() -> None:
    assert meanings(Derived)["kind"] == "Of one."
    assert meanings(Derived)["n_tokens"] == "How many\nthere are."
    assert "silent" not in meanings(Derived)


def test_a_json_schema_has_the_texts() -> None:
    fields = Derived.model_json_schema()["properties"]
    told = {name: field.get("description") for name, field in fields.items()}
    assert told == {
        "n_tokens": "How many\nthere are.",
        "kind": "Of one.",
        "told": "By itself.",
        "silent": None,
    }
