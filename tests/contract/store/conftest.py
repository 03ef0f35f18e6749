"""Every test of this folder that asks for `any_store_url` runs on both databases."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.gateway_fixtures import broker, budgets, empty_store, gateway, store

__all__ = ["broker", "budgets", "empty_store", "gateway", "store"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def any_store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "postgresql":
        yield request.getfixturevalue("private_postgres")
    else:
        yield f"sqlite:///{tmp_path / 'warren.db'}"
