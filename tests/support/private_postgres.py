"""A PostgreSQL server of our own: its own port and folder, trusted logins from loopback only."""

import asyncio
import contextlib
import glob
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.processes import (
    children,
    end,
    free_port,
    kill_and_wait,
    run,
    signal_group,
    spawn,
    wait_until,
)

from warren_gateway.store.store import Store

USER = "warren"


class PrivatePostgres:
    """One server, with the same data and address across `kill`, `stop` and `start`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self._programs = _programs()
        self._user = _unprivileged_user()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process

    def create(self) -> None:
        """Make the data folder."""
        if self._user is not None:
            shutil.chown(self.folder, self._user, self._user)
        command = [str(self._programs / "initdb"), "--pgdata", str(self._data), "--username", USER]
        command += ["--auth", "trust", "--encoding", "UTF8", "--no-locale", "--no-sync"]
        run(command, folder=self.folder, user=self._user)

    def start(self) -> None:
        """Return when it answers."""
        self.spawn()
        self.wait_until_ready()

    def spawn(self) -> None:
        """Boot without waiting. Call from the main thread: the server dies with its spawner."""
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        log_path = self._log_path
        self._process = spawn(command, log_path=log_path, folder=self.folder, user=self._user)

    def wait_until_ready(self) -> None:
        """Return when it answers; blocks, so use a thread in a test."""
        wait_until(self._is_ready, self.process, deadline_s=PATIENCE_S, log_path=self._log_path)

    def new_database(self, template: str = "template1") -> str:
        """A copy of the template, which is empty unless told otherwise; its URL for SQLAlchemy with the psycopg 3 driver."""
        name = f"test_{secrets.token_hex(6)}"
        command = [str(self._programs / "createdb"), *self._address, "--username", USER]
        run([*command, "--template", template, name], folder=self.folder)
        return f"postgresql+psycopg://{USER}@127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        """Shut down, without waiting for the clients."""
        end(self.process, signal.SIGINT, grace_s=STOP_S)
        self._process = None

    def kill(self) -> None:
        """`kill -9` for the server and all its processes, which share its memory."""
        signal_group(self.process, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        workers = children(self.process.pid)  # and it starts no more of them
        signal_group(self.process, signal.SIGKILL)
        self.process.wait()
        kill_and_wait(workers)
        self._process = None

    def pause(self) -> None:
        """Stop the world: connections stay open and nobody answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, signum: signal.Signals) -> None:
        """Each backend is in a session of its own."""
        for pid in (self.process.pid, *children(self.process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)

    def close(self) -> None:
        """Kill what runs and forget the data."""
        if self._process is not None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _log_path(self) -> Path:
        return self.folder / "console.log"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _address(self) -> list[str]:
        return ["--host", "127.0.0.1", "--port", str(self.port)]

    def _is_ready(self) -> bool:
        command = [
            str(self._programs / "pg_isready"),
            "--quiet",
            *self._address,
            "--username",
            USER,
        ]
        return subprocess.run(command, check=False, cwd=self.folder).returncode == 0


def _programs() -> Path:
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found:
        pytest.fail("PostgreSQL is not installed: apt-get install postgresql")
    return Path(found[-1])


def _unprivileged_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    return "postgres" if os.geteuid() == 0 else None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PrivatePostgres]:
    """One running server for the whole session."""
    server = PrivatePostgres(Path(tempfile.mkdtemp(prefix="warren-postgres-")))
    try:
        server.create()
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def store_template(postgres_server: PrivatePostgres) -> str:
    """Name of a database with the tables of a store and nothing in them: to copy it is cheaper than the making."""
    url = postgres_server.new_database()
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, _migrated(url)).result()
    return url.rpartition("/")[2]


async def _migrated(url: str) -> None:
    await (await Store.open(url)).close()


@pytest.fixture
def private_postgres(postgres_server: PrivatePostgres, store_template: str) -> str:
    """The SQLAlchemy URL of a store with nothing in it, one for each test."""
    return patient_database(postgres_server, store_template)


def patient_database(server: PrivatePostgres, template: str = "template1") -> str:
    """A copy of the template; a pause of this process or of the server is no reason for a store to give up."""
    seconds = int(PATIENCE_S)
    patience = {
        "connect_timeout": seconds,
        "keepalives_idle": seconds,
        "keepalives_interval": seconds,
        "tcp_user_timeout": 3000 * seconds,
        "options": f"-c idle_in_transaction_session_timeout={seconds}s",
    }
    return f"{server.new_database(template)}?{urlencode(patience, quote_via=quote)}"
