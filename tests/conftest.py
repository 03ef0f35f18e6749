"""Servers that all suites share: one node and one database server for each test session."""

from hypothesis import settings
from tests.support.private_postgres import postgres_server, private_postgres
from tests.support.private_rabbit import private_rabbit

__all__ = ["postgres_server", "private_postgres", "private_rabbit"]

# A test says what must hold, never how fast: a loaded machine is no failure.
settings.register_profile("warren", deadline=None)
settings.load_profile("warren")
