"""The connection between two machines of a sampler: lines of JSON, and an end that is noticed within a minute."""

import socket

from pydantic import BaseModel

_LONGEST = 1 << 20
"""Bytes of a line."""
_SILENT_S, _PROBE_S, _N_PROBES = 10, 5, 4
"""A connection on which nothing was said for so long is probed, so often, so many times: half a minute in all."""


def kept_alive(connection: socket.socket) -> socket.socket:
    """The end of the network between is the end of the connection, soon."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _N_PROBES)
    return connection


def say(connection: socket.socket, word: BaseModel) -> None:
    connection.sendall(word.model_dump_json().encode() + b"\n")


def read_line(connection: socket.socket) -> bytes:
    with connection.makefile("rb") as lines:
        line = lines.readline(_LONGEST)
    if not line.endswith(b"\n"):
        raise ConnectionError("the other end left, or said too much")
    return line


def end_of(connection: socket.socket) -> str:
    try:
        said = connection.recv(1, socket.MSG_PEEK)  # which others who look see, too
    except OSError as error:
        return f"the connection to it is lost ({error.strerror})"
    return "it says something unasked" if said else "it has left"


def name_of(connection: socket.socket) -> str:
    try:
        return str(connection.getpeername()[0])
    except OSError:  # it was here a moment ago
        return "a machine"
