"""Questions and answers on a connection: a u32 little-endian length and so many bytes of JSON.

One end asks and the other answers, in turns. The asking end may block, or await on the event loop, from question to
question. Invariant: who was interrupted between a question and its answer must not ask again on that connection.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import BaseModel

_LENGTH = struct.Struct("<I")
MAX_BYTES = 16 << 20

Fields = Mapping[str, Any]


class HungUp(ConnectionError):
    """The other end has gone."""


def packed(fields: Fields) -> bytes:
    """Raises `ValueError` for what is no text, such as half a character."""
    try:
        frame = orjson.dumps(fields, default=_plain)
    except TypeError as error:
        raise ValueError(f"this can't be sent: {error}") from error
    return _LENGTH.pack(len(frame)) + frame


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_unset=True)
    raise TypeError(f"{type(value).__name__} is no JSON")


def tell(connection: socket.socket, frame: bytes) -> None:
    connection.setblocking(True)
    connection.sendall(frame)


def hear(connection: socket.socket) -> Fields:
    """Raises `HungUp`."""
    connection.setblocking(True)
    return _unpacked(_exactly(connection, _n_bytes(_exactly(connection, _LENGTH.size))))


def _exactly(connection: socket.socket, n_bytes: int) -> bytes:
    received = connection.recv(n_bytes, socket.MSG_WAITALL)
    if len(received) < n_bytes:
        raise HungUp("the env worker has hung up")
    return received


async def tell_later(connection: socket.socket, frame: bytes) -> None:
    connection.setblocking(False)
    await asyncio.get_running_loop().sock_sendall(connection, frame)


async def hear_later(connection: socket.socket) -> Fields:
    """Raises `HungUp`."""
    connection.setblocking(False)
    n_bytes = _n_bytes(await _exactly_later(connection, _LENGTH.size))
    return _unpacked(await _exactly_later(connection, n_bytes))


async def _exactly_later(connection: socket.socket, n_bytes: int) -> bytes:
    received, loop = b"", asyncio.get_running_loop()
    while len(received) < n_bytes:
        part = await loop.sock_recv(connection, n_bytes - len(received))
        if not part:
            raise HungUp("the env worker has hung up")
        received += part
    return received


async def heard(reader: asyncio.StreamReader) -> Fields | None:
    """The next question, for the end that answers; None when the other one has gone."""
    try:
        n_bytes = _n_bytes(await reader.readexactly(_LENGTH.size))
        return _unpacked(await reader.readexactly(n_bytes))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def _n_bytes(head: bytes) -> int:
    (n_bytes,) = _LENGTH.unpack(head)
    if n_bytes > MAX_BYTES:
        raise HungUp(f"a frame of {n_bytes} bytes is none of ours")
    return n_bytes


def _unpacked(frame: bytes) -> Fields:
    return orjson.loads(frame)
