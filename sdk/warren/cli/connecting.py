"""Connect to the gateway that a command names."""

from warren.cli.options import Gateway
from warren.client import Client, connect

RETRY_S = 2.0
"""A person at a terminal would rather hear at once that nobody answers."""


def connected(gateway: Gateway) -> Client:
    return connect(gateway.url, gateway.api_key, retry_s=RETRY_S)
