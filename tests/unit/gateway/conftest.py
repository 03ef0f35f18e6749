"""A listening app for the gateway's tests."""

from tests.support.gateway_fixtures import budgets, client, gateway

__all__ = ["budgets", "client", "gateway"]
