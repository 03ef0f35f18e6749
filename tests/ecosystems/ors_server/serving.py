"""A real `warren ors-server`, which can be killed and started again."""

import json
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from tests.support.patience import PATIENCE_S
from tests.support.processes import free_port, signal_group, spawn, wait_until

ROOT = Path(__file__).parents[3]
HERE = "tests.ecosystems.ors_server.environments"


@dataclass
class OrsServer:
    port: int
    log: Path
    options: Sequence[str]
    process: "subprocess.Popen[bytes]" = field(init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        command = [sys.executable, "-m", "warren", "ors-server", "--port", str(self.port)]
        self.process = spawn([*command, *self.options], log_path=self.log, folder=ROOT)

    def kill(self) -> None:
        signal_group(self.process, signal.SIGKILL)
        self.process.wait()

    def is_up(self) -> bool:
        try:
            with urlopen(f"{self.url}health") as answer:
                return answer.status == 200
        except (URLError, ConnectionError):
            return False


@contextmanager
def ors_server(folder: Path, *options: str, **settings: Any) -> Generator[OrsServer]:
    """Serves the environments of these tests too; keyword arguments are the file of settings."""
    file = folder / "served.yaml"
    file.write_text(json.dumps(settings))
    named = [f"--env={HERE}:Vault", f"--env={HERE}:Counter", f"--settings={file}"]
    server = OrsServer(free_port(), folder / "ors-server.log", [*named, *options])
    server.start()
    try:
        wait_until(server.is_up, server.process, deadline_s=PATIENCE_S, log_path=server.log)
        yield server
    finally:
        server.kill()


def client_program(python: Path, name: str, url: str) -> dict[str, Any]:
    """What a program of a foreign client saw."""
    command = [str(python), str(Path(__file__).parent / name), url]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
