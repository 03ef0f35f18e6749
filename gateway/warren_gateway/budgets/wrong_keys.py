"""How many wrong keys an address may send before it is told to wait.

Invariant: only a request whose key was found wrong is counted here and refused; a right key behind the same
address passes, however many wrong ones come from there.
"""

import ipaddress
import logging

from warren_gateway.budgets.request_rate import RequestRate, TooManyRequests
from warren_schemas.users.budgets import BudgetView

WHAT = "wrong keys from your address"
IPV6_NETWORK_BITS = 64
"""Whoever has one address of such a network may have all of them."""

log = logging.getLogger(__name__)


class TooManyWrongKeys(Exception):
    def __init__(self, wait_s: float) -> None:
        super().__init__("Too many wrong API keys have come from your address")
        self.wait_s = wait_s


class WrongKeys:
    def __init__(self, *, per_s: float, burst: int) -> None:
        self._rate = RequestRate(per_s=per_s, burst=burst)

    def count(self, address: str | None) -> None:
        """One more came from there. Raises `TooManyWrongKeys`."""
        origin = _origin(address)
        try:
            self._rate.count(origin)
        except TooManyRequests as error:
            if self._rate.n_refused(origin) == 1:
                log.warning("wrong API keys from %s: it is told to wait", origin)
            raise TooManyWrongKeys(error.wait_s) from error

    def view(self, address: str | None) -> BudgetView:
        """As whoever has this address may see it."""
        return self._rate.view(WHAT, _origin(address))


def _origin(address: str | None) -> str:
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or "a local socket"
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, IPV6_NETWORK_BITS), strict=False))
