"""The fork server of one foreign package.

Invariants: it is started when it is first wanted, and again after its death; it ends with this process, and
its episodes' processes end with it. Sets of texts have the same order in every one, so that a seed is the same task
everywhere, though a package walks through such sets as it makes its tasks.
"""

import asyncio
import contextlib
import os
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from warren.environment import ConfigError
from warren_env_worker.foreign import virtual_environments
from warren_env_worker.foreign.channel import Channel
from warren_env_worker.foreign.package_process import MAX_LINE_BYTES, PackageProcess, ProcessLost

START_S = 240.0
"""To import the package: some take many seconds of a processor, on a machine that may be busy."""
MEMORY_MB = 2048
"""Of each episode's process."""
MAX_STARTS = 3


class StartFailed(Exception):
    """A package whose process comes to no episode: none was lost by it."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(
            f"{name} could not be started: {why}. What it printed is in the env worker's log and in logs/environments"
            f" of its home ($WARREN_HOME, or else ~/.warren); warren env install {name} installs it anew"
        )


class Package:
    """For one event loop."""

    def __init__(self, name: str, program: str) -> None:
        self.name = name
        self._program = virtual_environments.PROGRAMS / program
        self._starting = asyncio.Lock()
        self._server: _ForkServer | None = None

    async def episode(self) -> PackageProcess:
        """A fresh process. Raises `ConfigError` where the package is not installed, `StartFailed`, and `OSError`
        where this process can't connect."""
        for _ in range(MAX_STARTS):
            with contextlib.suppress(ProcessLost):
                return await self._opened()
        raise StartFailed(self.name, f"it was lost {MAX_STARTS} times")

    async def _opened(self) -> PackageProcess:
        server = await self._running()
        try:
            return await PackageProcess.opened(server.channel)
        except ProcessLost:
            await _end(server.process)  # it may be dead without our having heard of it
            raise

    async def _running(self) -> "_ForkServer":
        async with self._starting:
            if self._server is None or self._server.process.returncode is not None:
                self._server = await self._started()
            return self._server

    async def _started(self) -> "_ForkServer":
        if not virtual_environments.is_installed(self.name):
            raise ConfigError(
                f"{self.name} is not installed on this env worker: warren env install {self.name}"
            )
        try:
            server = await self._spawned()
        except (FileNotFoundError, PermissionError) as error:
            raise StartFailed(self.name, "its Python can't be run") from error
        await self._require_ready(server.process)
        return server

    async def _spawned(self) -> "_ForkServer":
        python, programs = virtual_environments.python(self.name), virtual_environments.PROGRAMS
        command = (python, "-s", "-P", programs / "fork_server.py", self._program)
        channel = Channel()
        try:
            with channel.theirs as theirs:
                process = await asyncio.create_subprocess_exec(
                    *map(str, command), str(MEMORY_MB), str(MAX_LINE_BYTES),
                    stdin=theirs.fileno(), stdout=asyncio.subprocess.PIPE, env=_environment(),
                )  # fmt: skip
        except BaseException:
            channel.close()
            raise
        closing = asyncio.create_task(_closed(channel, process), name=f"channel of {self.name}")
        return _ForkServer(process, channel, closing)

    async def _require_ready(self, process: asyncio.subprocess.Process) -> None:
        """Raises `StartFailed`, and `ProcessLost` where somebody killed it."""
        assert process.stdout is not None
        is_ready = False
        try:
            async with asyncio.timeout(START_S):
                is_ready = bool(await process.stdout.readline())
                code = 0 if is_ready else await process.wait()
        except TimeoutError as error:
            raise StartFailed(self.name, f"it took more than {START_S:.0f} s") from error
        finally:
            if not is_ready and process.returncode is None:
                process.kill()
        if code < 0:
            raise ProcessLost(f"{self.name} was killed as it started")
        if not is_ready:
            raise StartFailed(self.name, f"it ended with {code}")


def _environment() -> dict[str, str]:
    """Without Python's own variables, as by `-I`, which would leave the hashes of texts to chance."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | {"PYTHONHASHSEED": "0"}


@dataclass(frozen=True, slots=True)
class _ForkServer:
    process: asyncio.subprocess.Process
    channel: Channel
    closing: asyncio.Task[None]
    """Held: an event loop may drop tasks that nobody holds."""


async def _closed(channel: Channel, process: asyncio.subprocess.Process) -> None:
    """Once that has ended, or at the latest as this event loop does."""
    try:
        await process.wait()
    finally:
        channel.close()
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


_packages: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Package]] = WeakKeyDictionary()


def package(name: str, program: str) -> Package:
    """The one of this event loop."""
    of_loop = _packages.setdefault(asyncio.get_running_loop(), {})
    return of_loop.setdefault(name, Package(name, program))
