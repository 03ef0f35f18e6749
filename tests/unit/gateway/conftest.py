"""A listening app for the gateway's tests."""

from tests.support.gateway_fixtures import gateway

__all__ = ["gateway"]
