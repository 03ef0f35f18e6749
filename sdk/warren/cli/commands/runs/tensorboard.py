"""`warren tensorboard`: fetch runs' curves from the gateway, and look at them in TensorBoard.

TensorBoard is a program of its own, which we start and end; it reads the files as they grow.
"""

import asyncio
import math
import re
import signal
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes, die_with_parent
from warren.cli.connecting import connected
from warren.cli.options import HERE, Gateway, GatewayOptions
from warren.cli.plugins import install_command
from warren.display.output import make_output
from warren.errors import ConfigurationError, WarrenError
from warren_schemas.tensorboard.layout import page_url

GRACE_S = 5.0
"""What TensorBoard may take to end."""
RELOAD_S = 5
_LISTENS = re.compile(r"TensorBoard \S+ at (http://\S+?)/? ")


def tensorboard(
    *runs: Annotated[str, Parameter(name="RUN", help="Id, end of the id, name, or `last`.")],
    logdir: Annotated[
        Path | None, Parameter(help="Folder to keep the files in (default: a temporary one).")
    ] = None,
    host: Annotated[str, Parameter(help="Address for TensorBoard to listen at.")] = "127.0.0.1",
    port: Annotated[int, Parameter(help="Port; 0 chooses a free one.")] = 6006,
    gateway: GatewayOptions = HERE,
) -> int:
    """Show runs in TensorBoard, with curves fetched from the gateway and updated live.

    Ctrl-C stops TensorBoard; the runs go on.

    For example:
        warren tensorboard last
        warren tensorboard guess-a guess-b --logdir curves --port 6010
    """
    if not runs:
        raise ConfigurationError(
            "warren tensorboard needs the runs to show",
            hint="`warren tensorboard last` shows the newest one; `warren runs ls` lists them.",
        )
    if find_spec("tensorboard") is None:
        raise ConfigurationError(
            "`warren tensorboard` needs the Python package tensorboard, which is not installed",
            hint=f"Install it with: {install_command('tensorboard')}",
        )
    with _folder(logdir) as folder:
        return asyncio.run(_show(runs, folder, host, port, gateway))


@contextmanager
def _folder(logdir: Path | None) -> Generator[Path]:
    if logdir is not None:
        yield logdir
        return
    with tempfile.TemporaryDirectory(prefix="warren-tensorboard-") as folder:
        yield Path(folder)


async def _show(names: Sequence[str], folder: Path, host: str, port: int, gateway: Gateway) -> int:
    from warren.cli.commands.runs.tensorboard_mirror import Mirror

    output = make_output()
    async with connected(gateway) as client:
        runs = {run.id: run for run in [await client.run(name) for name in names]}
        mirrors = [Mirror(run, folder) for run in runs.values()]
        for mirror in mirrors:
            await mirror.catch_up()
            output.line(f"Fetched {mirror.folder.name}")
        async with served(folder, host, port) as (server, address), asyncio.TaskGroup() as tasks:
            output.line(f"TensorBoard: {page_url(address)}")
            output.line("Ctrl-C ends it; the runs go on.", "dim")
            following = [tasks.create_task(m.follow(reconnect_s=math.inf)) for m in mirrors]
            await _until_ended(server)
            for task in following:
                task.cancel()
        for mirror in mirrors:
            await mirror.close()
    return codes.OK


@asynccontextmanager
async def served(folder: Path, host: str, port: int) -> AsyncGenerator[tuple[Process, str]]:
    """TensorBoard once it listens, and where. Raises `WarrenError` where it can't."""
    arguments = {
        "logdir": folder, "host": host, "port": port, "reload_interval": RELOAD_S,
        "reload_multifile": "true", "load_fast": "false",
    }  # fmt: skip
    words = [word for name, value in arguments.items() for word in (f"--{name}", str(value))]
    server = await asyncio.create_subprocess_exec(
        *die_with_parent.command("tensorboard.main", *words), stderr=PIPE, start_new_session=True
    )
    reading: asyncio.Task[None] | None = None
    try:
        address = await _address(server)
        reading = asyncio.create_task(_drain(server), name="read TensorBoard's log")
        yield server, address
    finally:
        await _stop(server)
        if reading is not None:
            await reading


async def _address(server: Process) -> str:
    assert server.stderr is not None
    said: list[str] = []
    async for line in server.stderr:
        said.append(line.decode(errors="replace").strip())
        if (found := _LISTENS.search(f"{said[-1]} ")) is not None:
            return found[1]
    raise WarrenError(
        "TensorBoard did not start", details=[line for line in said if line][-5:],
        hint="Is its port taken? --port chooses another one.",
    )  # fmt: skip


async def _drain(server: Process) -> None:
    """So that it never waits for a reader of its log."""
    assert server.stderr is not None
    async for _ in server.stderr:
        pass


async def _until_ended(server: Process) -> None:
    """By itself, or by Ctrl-C or SIGTERM."""
    loop, asked = asyncio.get_running_loop(), asyncio.Event()
    waiting = [asyncio.create_task(server.wait()), asyncio.create_task(asked.wait())]
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked.set)
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        for task in waiting:
            task.cancel()


async def _stop(server: Process) -> None:
    if server.returncode is None:
        server.terminate()
        try:
            async with asyncio.timeout(GRACE_S):
                await server.wait()
        except TimeoutError:
            server.kill()
            await server.wait()
