"""Every test of this folder that asks for `any_store_url` or `any_new_url` runs on both databases."""

import shutil
from pathlib import Path

import pytest
from tests.support.gateway_fixtures import broker, budgets, empty_store, gateway, store
from tests.support.private_postgres import patient_database

__all__ = ["broker", "budgets", "empty_store", "gateway", "store"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def any_store_url(request: pytest.FixtureRequest, tmp_path: Path, empty_store: Path) -> str:
    """Of a store with nothing in it."""
    if request.param == "postgresql":
        return request.getfixturevalue("private_postgres")
    shutil.copy(empty_store, tmp_path / "warren.db")
    return f"sqlite:///{tmp_path / 'warren.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.server)])
def any_new_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a database that no gateway has opened: it has no tables."""
    if request.param == "postgresql":
        return patient_database(request.getfixturevalue("postgres_server"))
    return f"sqlite:///{tmp_path / 'warren.db'}"
