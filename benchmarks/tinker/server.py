"""What the clients of the benchmark talk to: Warren, Warren without a model, or a peer."""

import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.episodes.meter import cpu_by_process
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.processes import end, kill_and_wait, spawn, wait_until

What = Literal["train", "sample"]


@dataclass(frozen=True, slots=True)
class Server:
    name: str
    url: str
    key: str
    base_model: str
    """As clients name it."""
    python: str
    """Has an SDK that it speaks with."""
    pid: int
    """It and its descendants are all of it."""
    gateway_pid: int
    """The process that clients talk to."""
    offers: Sequence[What] = ("train", "sample")


@contextmanager
def program(
    command: Sequence[str],
    is_ready: Callable[[], bool],
    folder: Path,
    environment: Mapping[str, str],
) -> Generator[int]:
    """The process id of a server, once it is ready; nothing that it started outlives it."""
    log = folder / "server.log"
    process = spawn(command, log_path=log, environment=environment, folder=folder)
    try:
        wait_until(is_ready, process, deadline_s=PATIENCE_S, log_path=log)
        yield process.pid
    finally:
        family = cpu_by_process(process.pid)
        end(process, signal.SIGTERM, grace_s=STOP_S)
        kill_and_wait(list(family))


def answers(url: str) -> bool:
    """With a status that says that all is well."""
    with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=1):
        return True
    return False
