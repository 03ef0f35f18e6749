"""Which network interface reaches another machine, so that libraries talk to it there."""

import fcntl
import os
import socket
import struct

_SIOCGIFADDR = 0x8915
_ADDRESS = slice(20, 24)
"""Of an interface, in what the kernel answers."""


def choose_interface(address: str) -> None:
    """Have gloo and NCCL talk where this address of ours is, unless somebody has chosen another interface."""
    if (interface := interface_of(address)) is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        if interface != "lo":
            os.environ.setdefault("NCCL_SOCKET_IFNAME", interface)


def address_towards(host: str, port: int) -> str:
    """The address from which this machine reaches that one. Raises `OSError`."""
    with socket.socket(family_of(host, port), socket.SOCK_DGRAM) as probe:
        probe.connect(resolved(host, port))  # sends nothing
        return probe.getsockname()[0]


def interface_of(address: str) -> str | None:
    """The name of the network interface that has this IPv4 address; None if there is none."""
    if address.startswith("127."):
        return "lo"
    for _, name in socket.if_nameindex():
        if _address_of(name) == address:
            return name
    return None


def family_of(host: str, port: int) -> socket.AddressFamily:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]


def resolved(host: str, port: int) -> tuple[str, int]:
    address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][4]
    return str(address[0]), int(address[1])


def _address_of(interface: str) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        asked = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, asked)
        except OSError:  # it has no address
            return None
    return socket.inet_ntoa(answer[_ADDRESS])
