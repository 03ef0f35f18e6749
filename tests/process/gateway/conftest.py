"""A listening app on SQLite and the in-process broker."""

from tests.support.gateway_fixtures import broker, budgets, empty_store, gateway, store

__all__ = ["broker", "budgets", "empty_store", "gateway", "store"]
