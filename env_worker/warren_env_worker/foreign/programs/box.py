"""A box on this machine in the place of a container, for programs of foreign packages; it imports none of them.

How a box is made is told: that is not these programs' business. Invariants: no file is read or written but by a
command within the box, so that no link there leads out of it; a box that is lost fails whatever is asked of it.
"""

import asyncio
import base64
import io
import itertools
import json
import os
import shlex
import socket
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

MAX_LINE_BYTES = 512 << 20
MAX_OUTPUT_BYTES = 8 << 20
MAX_FILES_BYTES = 256 << 20
"""Of one transfer out of the box."""
BY_SIGNAL = 128
VARIABLES = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "TERM": "xterm-256color",
}


class BoxLost(Exception):
    """The box ended, or could not be begun."""


class Ended(NamedTuple):
    """How a command ended."""

    status: int
    """As a shell tells it."""
    output: bytes
    errors: bytes
    is_late: bool


class Box:
    """A connection to its process 1, which runs several commands at once."""

    def __init__(self, process: Any, reader: Any, writer: Any) -> None:
        self._process, self._reader, self._writer = process, reader, writer
        self.pid: int = process.pid
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Ended]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def begun(cls, isolation: dict[str, Any]) -> "Box":
        """`isolation` are its `line`, and `files` by their names in that. Raises `OSError`."""
        ours, theirs = socket.socketpair()
        files = {
            name: nameless(base64.b64decode(text)) for name, text in isolation["files"].items()
        }
        line = [filled(part, files) for part in isolation["line"]]
        try:
            process = await asyncio.create_subprocess_exec(
                *line,
                stdin=theirs.fileno(),
                pass_fds=tuple(files.values()),
                start_new_session=True,
                env={},  # process 1 would show what is in ours, keys too, to all others of the box
            )
        finally:
            theirs.close()
            for descriptor in files.values():
                os.close(descriptor)
        return cls(process, *await asyncio.open_connection(sock=ours, limit=MAX_LINE_BYTES))

    async def run(
        self,
        command: list[str],
        folder: str = "/",
        variables: dict[str, str] | None = None,
        limit_s: float | None = None,
        given: bytes = b"",
        max_bytes: int = MAX_OUTPUT_BYTES,
    ) -> Ended:
        """Raises `BoxLost`."""
        asked = {
            "command": command,
            "folder": folder,
            "variables": {**VARIABLES, **(variables or {})},
            "input": base64.b64encode(given).decode(),
            "limit_s": limit_s,
            "max_bytes": max_bytes,
        }
        return await self._answer(asked)

    async def put(self, packed: bytes, folder: str) -> None:
        """What a tar file holds."""
        quoted = shlex.quote(folder)
        await self._done(f"mkdir -p {quoted} && tar -x --no-same-owner -C {quoted}", packed)

    async def write(self, path: str, content: bytes) -> None:
        folder = shlex.quote(os.path.dirname(path))
        await self._done(f"mkdir -p {folder} && cat > {shlex.quote(path)}", content)

    async def content(self, path: str) -> bytes:
        return await self._done(f"cat -- {shlex.quote(path)}")

    async def packed(self, folder: str) -> bytes:
        """What it holds, as a tar file. Not to be trusted."""
        return await self._done(f"tar -c -C {shlex.quote(folder)} .")

    async def _done(self, command: str, given: bytes = b"") -> bytes:
        line = ["/bin/bash", "-c", command]
        ended = await self.run(line, given=given, max_bytes=MAX_FILES_BYTES)
        if ended.status != 0 or len(ended.output) >= MAX_FILES_BYTES:
            said = ended.errors.decode(errors="replace").splitlines()
            why = said[0] if said else "there is too much of it"
            raise OSError(f"{why} ({command})")
        return ended.output

    async def _answer(self, command: dict[str, Any]) -> Ended:
        number = next(self._numbers)
        if self._reading.done():
            raise BoxLost("the box of the task ended")
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        is_answered = False
        try:
            await self._send({"run": number, **command})
            told = await answer
            is_answered = True
            return told
        finally:
            self._waiting.pop(number, None)
            if not is_answered and not self._reading.done():
                await self._send({"end": number})

    async def _send(self, told: dict[str, Any]) -> None:
        self._writer.write(json.dumps(told).encode() + b"\n")
        try:
            await self._writer.drain()
        except ConnectionError as error:
            raise BoxLost("the box of the task ended") from error

    async def _read(self) -> None:
        try:
            while line := await self._reader.readline():
                told = json.loads(line)
                if (answer := self._waiting.get(told["id"])) is not None and not answer.done():
                    answer.set_result(ended(told))
        except (OSError, ValueError):
            pass
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(BoxLost("the box of the task ended"))

    async def close(self) -> None:
        self._writer.close()
        await self._process.wait()
        await self._reading


def nameless(content: bytes) -> int:
    descriptor = os.memfd_create("warren")
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def filled(part: str, files: dict[str, int]) -> str:
    return str(files[part[1:-1]]) if part[:1] == "{" and part[1:-1] in files else part


def ended(told: dict[str, Any]) -> Ended:
    status: int = told["status"]
    output, errors = (base64.b64decode(told[name]) for name in ("output", "errors"))
    return Ended(status if status >= 0 else BY_SIGNAL - status, output, errors, told["is_late"])


def packed_as(name: str, source: Path) -> bytes:
    """A tar file of this file or folder, which is called so in it."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(source, name, filter=as_root)
    return packed.getvalue()


def as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
