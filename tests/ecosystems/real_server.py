"""A foreign package's real server, in the Python of its own environment: `PROGRAM PORT`."""

import signal
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.processes import free_port, signal_group, spawn

from warren.environment import ChatMessage
from warren.testing import Policy

ROOT = Path(__file__).parents[2]


@dataclass
class RealServer:
    """Whoever asks it waits for it: nothing here does."""

    command: tuple[str, ...]
    port: int
    log: Path
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        self.process = spawn([*self.command, str(self.port)], log_path=self.log)

    def kill(self) -> None:
        assert self.process is not None
        signal_group(self.process, signal.SIGKILL)
        self.process.wait()

    def start_again(self) -> None:
        self.kill()
        self.start()


@contextmanager
def real_server(environment: str, program: Path, folder: Path) -> Generator[RealServer]:
    """`environment` is the name of a virtual one: `.venv-NAME`."""
    python = str(ROOT / f".venv-{environment}" / "bin" / "python")
    server = RealServer((python, str(program)), free_port(), folder / f"{environment}.log")
    server.start()
    try:
        yield server
    finally:
        server.kill()


def saying(*actions: str) -> Policy:
    left = iter(actions)
    return lambda _: next(left)


def killing(server: RealServer, actions: Sequence[str], *, before: int) -> Policy:
    """The server is killed, and started again, before the action of this number."""
    left = iter(enumerate(actions))

    def policy(_: Sequence[ChatMessage]) -> str:
        number, action = next(left)
        if number == before:
            server.start_again()
        return action

    return policy
