"""Names of hosts to addresses that may be connected to.

Invariant: the addresses that are checked are those that are connected to: there is no second look-up
between, which could give another answer.
"""

import ipaddress
import socket

from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver

_EMBEDDING = ipaddress.ip_network("64:ff9b::/96")
"""NAT64: an IPv4 address, which a gateway may find in its own network, dressed as a public one."""


def is_public(address: str) -> bool:
    """Whether everybody on the Internet means the same machine by it."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return is_public(str(found.ipv4_mapped))
        if found.sixtofour is not None or found.teredo is not None or found in _EMBEDDING:
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
