"""The worker's end of a box: starts it, lets it reach the endpoint, and hears how the program ended.

Invariant: when `played` has ended, in whichever way, nothing of the program is left; a worker that dies takes the box
with it, whose process 1 then loses its socket.
"""

import asyncio
import os
import signal
import socket
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson

from warren.agents.box.bubblewrap import REWARD, boxed, variables
from warren.agents.box.inside import Report
from warren.agents.output import read_output
from warren_schemas.isolation.agent_box import Box

if TYPE_CHECKING:
    from warren.agents.endpoint import Endpoint

_MAX_MESSAGE_BYTES = 4096
_STDERR = 2
_MAX_COMPLAINT_CHARS = 500
_END_S = 30.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended that ran in a box."""

    report: Report | None
    """None: the box itself failed."""
    output: str
    complaint: str
    """The end of what it printed to standard error."""


async def played(
    command: Sequence[str], box: Box, folder: str, own: Mapping[str, str], endpoint: "Endpoint"
) -> Ended:
    """Run it to its end, with these variables of its own. Raises `CannotIsolate`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with closing(ours):
        with closing(theirs), boxed(command, box, folder, _place(endpoint)) as (line, descriptors):
            process = await asyncio.create_subprocess_exec(
                *line,
                env={**variables(), **own, "WARREN_REWARD": REWARD},
                stdin=theirs.fileno(),
                stdout=PIPE,
                stderr=PIPE,
                pass_fds=descriptors,
                start_new_session=True,
            )
        return await _ended(process, ours, endpoint)


def _place(endpoint: "Endpoint") -> tuple[str, int]:
    address = urlsplit(endpoint.address)
    assert address.hostname is not None
    assert address.port is not None
    return address.hostname, address.port


async def _ended(process: Process, control: socket.socket, endpoint: "Endpoint") -> Ended:
    assert process.stdout is not None
    assert process.stderr is not None
    output = asyncio.create_task(read_output(process.stdout), name="output of a program")
    complaint = asyncio.create_task(_passed_on(process.stderr), name="its complaints")
    try:
        report = await _report(control, endpoint)
    finally:
        control.close()
        await _let_end(process, {output, complaint})
    return Ended(report, output.result(), complaint.result())


async def _let_end(process: Process, reading: set[asyncio.Task[str]]) -> None:
    """A box ends by itself once its socket is closed; one that hangs before it has started is killed."""
    _, unread = await asyncio.wait(reading, timeout=_END_S)
    if unread:
        if process.returncode is None:
            process.kill()
        await asyncio.wait(unread)
    await process.wait()


async def _report(control: socket.socket, endpoint: "Endpoint") -> Report | None:
    """How the program ended; None if its box did before."""
    async with AsyncExitStack() as stack:
        message, listener = await _received(control)
        if listener is not None:
            await stack.enter_async_context(endpoint.also_at(listener))
            message, _ = await _received(control)
    return Report(**orjson.loads(message)) if message else None


async def _received(control: socket.socket) -> tuple[bytes, socket.socket | None]:
    """The next message and the socket that came with it; an empty one at the end."""
    async with _readable(control):
        message, descriptors, _, _ = socket.recv_fds(control, _MAX_MESSAGE_BYTES, 1)
    return message, socket.socket(fileno=descriptors[0]) if descriptors else None


@asynccontextmanager
async def _readable(control: socket.socket) -> AsyncGenerator[None]:
    loop = asyncio.get_running_loop()
    came = asyncio.Event()
    loop.add_reader(control, came.set)
    try:
        await came.wait()
        yield
    finally:
        loop.remove_reader(control)


async def _passed_on(stream: asyncio.StreamReader) -> str:
    """To this process's own standard error; the end of it is kept."""
    kept = bytearray()
    while chunk := await stream.read(65536):
        os.write(_STDERR, chunk)
        kept += chunk
        del kept[:-_MAX_COMPLAINT_CHARS]
    return " ".join(kept.decode(errors="replace").split())


def said(ended: Ended, box: Box, program: str) -> str:
    """Why it failed, as a sentence; empty if it did not."""
    report = ended.report
    if report is None:
        return f"{program} can't be put into a box: {ended.complaint or 'it ended without a word'}"
    if report.broke == "memory_mib":
        return f"{program} took more memory than the {box.memory_mib} MiB of its box (memory_mib), with all that it started"
    if report.broke == "processes":
        return f"{program} ran more than the {box.processes} processes and threads of its box (processes)"
    if report.status < 0:
        return f"{program} was killed by {signal.Signals(-report.status).name}"
    return ""
