"""Warren as `warren up` starts it, and the same with a trainer and a sampler that compute nothing."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.tinker.server import Server, program
from tests.ecosystems.tinker.table import BASE, deployed
from tests.support.processes import free_port
from tests.support.tinker import are_offered

ROOT = Path(__file__).parents[2]


@contextmanager
def warren(python: str, model: str, folder: Path) -> Generator[Server]:
    with deployed(folder, model) as up:
        assert up.process is not None
        pid = up.process.pid
        yield Server("Warren", up.url, up.key, BASE, python, pid, pid)


@contextmanager
def no_compute(python: str, model: str, folder: Path) -> Generator[Server]:
    port = free_port()
    url, key_file = f"http://127.0.0.1:{port}", folder / "api-key"
    command = [sys.executable, "-m", "benchmarks.tinker.no_compute", str(folder), str(port), model]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}

    def is_ready() -> bool:
        return key_file.exists() and are_offered(url, f"tml-{key_file.read_text().strip()}")

    with program(command, is_ready, folder, variables) as pid:
        key = f"tml-{key_file.read_text().strip()}"
        yield Server("Warren without a model", url, key, BASE, python, pid, pid)
