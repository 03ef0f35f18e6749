"""The session: runs cells, each in a fork of itself that becomes the session when it ends well.

So a cell that is killed or crashes takes nothing with it but itself: the process from before it
still holds all variables. Everything here runs together with what the model wrote, and is trusted
by nobody.
"""

import ast
import builtins
import contextlib
import json
import linecache
import os
import socket
import struct
import sys
import traceback
from typing import Any, Dict, Optional, Union  # noqa: UP035 - runs on old Pythons

LENGTH = struct.Struct("<I")
NUMBER = struct.Struct("<I")
MAX_CODE_BYTES = 65_536
N_FRAMES_SHOWN = 8


class Pipes:
    """Standard input and output, as far as a socket is used here."""

    def recv(self, n_bytes: int) -> bytes:
        return os.read(0, n_bytes)

    def sendall(self, data: bytes) -> None:
        while data:
            data = data[os.write(1, data) :]


Connection = Union[socket.socket, Pipes]  # noqa: UP007 - runs on old Pythons


def serve(control: socket.socket) -> None:
    """Run the cells that come until the supervisor goes."""
    names: Dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}  # noqa: UP006
    builtins.exit = builtins.quit = sys.exit
    while True:
        packet = control.recv(MAX_CODE_BYTES + NUMBER.size)
        if not packet:
            os._exit(0)
        process = os.fork()
        if process:
            os.waitpid(process, 0)
            _say(control, "died")
        else:
            _say(control, _run(packet, names))


def receive(connection: Connection) -> Optional[Dict[str, Any]]:  # noqa: UP006, UP045
    """The next object from the host; None at the end."""
    head = _exactly(connection, LENGTH.size)
    if head is None:
        return None
    body = _exactly(connection, LENGTH.unpack(head)[0])
    return None if body is None else json.loads(body)


def send(connection: Connection, message: Dict[str, Any]) -> None:  # noqa: UP006
    body = json.dumps(message).encode()
    connection.sendall(LENGTH.pack(len(body)) + body)


def _exactly(connection: Connection, n_bytes: int) -> Optional[bytes]:  # noqa: UP045
    data = b""
    while len(data) < n_bytes:
        part = connection.recv(n_bytes - len(data))
        if not part:
            return None
        data += part
    return data


def _say(control: socket.socket, outcome: str) -> None:
    control.sendall(json.dumps({"process": os.getpid(), "outcome": outcome}).encode())


def _run(packet: bytes, names: Dict[str, Any]) -> str:  # noqa: UP006
    (number,), code = NUMBER.unpack(packet[: NUMBER.size]), packet[NUMBER.size :].decode()
    name, process, outcome = f"<cell {number}>", os.getpid(), "ok"
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    try:
        _execute(code, name, names)
    except SystemExit:
        pass
    except BaseException as error:  # noqa: BLE001 - whatever the cell raised is shown
        _show(error)
        outcome = "error"
    _flush()
    if os.getpid() != process:  # a fork that the cell made: it is no heir
        os._exit(0)
    return outcome


def _execute(code: str, name: str, names: Dict[str, Any]) -> None:  # noqa: UP006
    """Run it; like a notebook, print the value of a last line that is an expression."""
    tree = ast.parse(code, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)  # noqa: S102 - this is what we are for
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
        if value is not None:
            print(repr(value))


def _show(error: BaseException) -> None:
    """Without our own frames, which lie above the cell's."""
    frames = error.__traceback__
    while frames is not None and not frames.tb_frame.f_code.co_filename.startswith("<cell"):
        frames = frames.tb_next
    try:
        traceback.print_exception(type(error), error, frames, limit=-N_FRAMES_SHOWN)
    except BaseException:  # noqa: BLE001 - an error that can't be printed is named
        print(type(error).__name__, file=sys.stderr)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):  # the cell may have closed or replaced it
            stream.flush()
