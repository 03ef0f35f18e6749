"""One process of a site under its name, across its lives."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import clock
from tests.chaos.proxy import Proxy
from tests.support.processes import children, kill_and_wait, spawn

ROOT = Path(__file__).parents[2]


@dataclass
class Part:
    name: str
    role: str
    command: tuple[str, ...]
    broker_link: Proxy
    store_link: Proxy | None
    environment: dict[str, str]
    log_path: Path
    clock_path: Path
    process: "subprocess.Popen[bytes] | None" = None
    is_frozen: bool = False
    born_s: float = 0.0
    """On the clock of the event loop."""
    is_wanted: bool = True
    """False while a fault or a test wants it dead."""
    memory_kb: list[int] = field(default_factory=list[int])
    """Resident memory of this life, once a second."""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Call from the main thread: the process dies with the thread that started it."""
        command = [sys.executable, "-m", clock.__name__, *self.command]
        self.process = spawn(
            command, log_path=self.log_path, environment=self.environment, folder=ROOT
        )
        self.is_frozen, self.is_wanted, self.memory_kb = False, True, []
        self.born_s = time.monotonic()

    def kill(self) -> None:
        self.is_wanted = False
        if self.is_alive:
            os.kill(self.pid, signal.SIGKILL)
            assert self.process is not None
            self.process.wait()

    def freeze(self) -> None:
        if self.is_alive:
            os.kill(self.pid, signal.SIGSTOP)
            self.is_frozen = True

    def thaw(self) -> None:
        if self.is_alive:
            os.kill(self.pid, signal.SIGCONT)
        self.is_frozen = False

    def kill_children(self) -> None:
        """The supervisor lives and has to notice."""
        if self.is_alive:
            with contextlib.suppress(OSError):
                kill_and_wait(children(self.pid))
