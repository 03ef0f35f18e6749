"""No kind of message can be forgotten: not by the codec, and not by the table of the topology."""

import re
from importlib import import_module
from pkgutil import walk_packages
from typing import ClassVar

import pytest

import warren_schemas
from warren_broker import topology
from warren_schemas.codec.wire import KINDS
from warren_schemas.envelope import Item


def test_the_codec_knows_every_kind() -> None:
    names = [module.name for module in walk_packages(warren_schemas.__path__, "warren_schemas.")]
    defined = {
        value
        for module in map(import_module, names)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Item) and value is not Item
    }
    assert defined == set(KINDS.values()), "define it in one of the modules that `wire` reads"


def test_the_table_of_the_topology_has_a_line_for_every_kind() -> None:
    lines = re.findall(r"^([a-z_]+) .*->", topology.__doc__ or "", re.MULTILINE)
    assert set(lines) == {kind for kind, _ in KINDS}


def test_a_kind_without_a_name_of_its_own_is_refused_where_it_is_defined() -> None:
    with pytest.raises(TypeError, match=r"Nameless .* needs a kind"):

        class Nameless(Item):  # pyright: ignore[reportUnusedClass]
            schema_version: ClassVar[int] = 1

    (named, *_) = KINDS.values()
    with pytest.raises(TypeError, match="needs a kind"):
        type("Heir", (named,), {"__module__": __name__})
