"""A listening app for the gateway's tests."""

from tests.support.gateway_fixtures import budgets, gateway

__all__ = ["budgets", "gateway"]
