"""The fork server of one foreign package.

Invariants: it is started when it is first wanted, and again after its death; it ends with this process, and
its episodes' processes end with it; the folder of its socket goes with whichever of the two ends first, however it
ends. Sets of texts have the same order in every one, so that a seed is the same task everywhere, though a package walks
through such sets as it makes its tasks.
"""

import asyncio
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from weakref import WeakKeyDictionary

from warren.environment import ConfigError
from warren_env_worker.foreign import virtual_environments
from warren_env_worker.foreign.conversation import MAX_LINE_BYTES, Conversation, ProcessLost

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
        self._process: asyncio.subprocess.Process | None = None
        self._folder: Path | None = None
        self._leaving = set[asyncio.Task[None]]()

    async def episode(self) -> Conversation:
        """A fresh process. Raises `ConfigError` where the package is not installed, `StartFailed`, and `OSError`
        where this process can't connect."""
        for _ in range(MAX_STARTS):
            with contextlib.suppress(ProcessLost):
                return await self._opened()
        raise StartFailed(self.name, f"it was lost {MAX_STARTS} times")

    async def _opened(self) -> Conversation:
        process, path = await self._listening()
        try:
            return await Conversation.opened(path)
        except ProcessLost:
            await _ended(process)  # it may be dead without our having heard of it
            raise

    async def _listening(self) -> tuple[asyncio.subprocess.Process, str]:
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                self._process = await self._started()
            assert self._folder is not None
            return self._process, str(self._folder / "socket")

    async def _started(self) -> asyncio.subprocess.Process:
        if not virtual_environments.is_installed(self.name):
            raise ConfigError(
                f"{self.name} is not installed on this env worker: warren env install {self.name}"
            )
        self._folder = folder = Path(tempfile.mkdtemp(prefix="warren-"))
        try:
            process = await self._spawned(folder / "socket")
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, FileNotFoundError | PermissionError):
                raise StartFailed(self.name, "its Python can't be run") from error
            raise
        leaving = asyncio.create_task(_left(process, folder), name=f"folder of {self.name}")
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)
        await self._require_ready(process)
        return process

    async def _spawned(self, path: Path) -> asyncio.subprocess.Process:
        command = [
            virtual_environments.python(self.name),
            "-s",
            "-P",
            virtual_environments.PROGRAMS / "fork_server.py",
            path,
        ]
        return await asyncio.create_subprocess_exec(
            *map(str, command), str(self._program), str(MEMORY_MB), str(MAX_LINE_BYTES),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, env=_environment(),
        )  # fmt: skip

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


async def _left(process: asyncio.subprocess.Process, folder: Path) -> None:
    """Once it has ended, or is about to, as this event loop does."""
    try:
        await process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _ended(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.wait()


_packages: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Package]] = WeakKeyDictionary()


def package(name: str, program: str) -> Package:
    """The one of this event loop."""
    of_loop = _packages.setdefault(asyncio.get_running_loop(), {})
    return of_loop.setdefault(name, Package(name, program))
