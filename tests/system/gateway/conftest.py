"""The in-process broker: of the servers, these tests need the database."""

from tests.support.gateway_fixtures import broker

__all__ = ["broker"]
