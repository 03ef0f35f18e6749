"""Names of hosts to addresses that may be connected to.

Invariant: the addresses that are checked are those that are connected to: there is no second look-up
between, which could give another answer.
"""

import ipaddress
import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "192.0.0.0/24",  # for protocols of the IETF
        "192.88.99.0/24",  # relays from IPv6 to IPv4, withdrawn
        "2001::/23",  # for protocols of the IETF, Teredo too
        "2002::/16",  # 6to4: holds an IPv4 address
        "3fff::/20",  # for documentation
    )
)
"""Which Python takes for global, here or there."""
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""All other IPv6 addresses are local, of no use, or hold an IPv4 address that a gateway may find in its own
network (NAT64)."""


def is_public(address: str) -> bool:
    """Whether everybody on the Internet means the same machine by it."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found not in _GLOBAL_UNICAST:
            return False
    if any(found in network for network in _NOT_PUBLIC):
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved)


class PublicResolver(AbstractResolver):
    """Raises `OSError` for a name of which any address is not public."""

    def __init__(self) -> None:
        self._resolver = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        if not all(is_public(each["host"]) for each in found):
            raise OSError("this address may not be connected to")
        return found

    async def close(self) -> None:
        await self._resolver.close()
