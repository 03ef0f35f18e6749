"""A RabbitMQ node of our own: no system service, no system files, nothing left behind.

Everything (cookie, data, logs, configuration) lies in one folder; the node listens on a port of its
own and has an epmd of its own. The process that we start is the Erlang VM itself, so `kill` really
kills the broker and `pause` really stops it.
"""

import glob
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.processes import (
    end,
    free_port,
    listens,
    signal_group,
    spawn,
    wait_until,
)
from typing_extensions import TypedDict

NODE = "warren@localhost"
AMQP_HEADER = b"AMQP\x00\x00\x09\x01"
_LOOPBACK_ONLY = "-kernel inet_dist_use_interface {127,0,0,1} -start_epmd false"


class _QueueRow(TypedDict):
    name: str
    messages: int


class PrivateRabbit:
    """One node, with the same data and address across `kill`, `stop` and `start`."""

    def __init__(self, folder: Path, password: str = "guest") -> None:
        self.folder = folder
        self.port = free_port()
        self._dist_port = free_port()
        self._epmd_port = free_port()
        self._password = password
        self._server = _server_script()
        self._process: subprocess.Popen[bytes] | None = None
        self._epmd: subprocess.Popen[bytes] | None = None
        self._write_files()

    @property
    def url(self) -> str:
        return f"amqp://guest:{self._password}@127.0.0.1:{self.port}/"

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise RuntimeError("the node is not running")
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def node_log_path(self) -> Path:
        """What the broker itself logs, from its first boot on."""
        return self.folder / "log" / f"{NODE}.log"

    def start(self) -> None:
        """Boot and return when it speaks AMQP (5 to 20 s)."""
        self.spawn()
        self.wait_until_ready()

    def spawn(self) -> None:
        """Boot without waiting. Call from the main thread: the node dies with its spawner."""
        if self._epmd is None:
            self._epmd = self._spawn_epmd()
        self._process = spawn(
            [self._server],
            log_path=self._log_path,
            environment=self._environment(),
            folder=self.folder,
        )

    def _spawn_epmd(self) -> "subprocess.Popen[bytes]":
        """Nodes look for it once, as they boot: it listens when this returns."""

        log_path = self.folder / "epmd.log"
        command = ["epmd", "-port", str(self._epmd_port), "-address", "127.0.0.1"]
        epmd = spawn(command, log_path=log_path)
        wait_until(lambda: listens(self._epmd_port), epmd, deadline_s=PATIENCE_S, log_path=log_path)
        return epmd

    def wait_until_ready(self) -> None:
        """Return when the node answers an AMQP handshake; blocks, so use a thread in a test."""
        wait_until(self._is_ready, self.process, deadline_s=PATIENCE_S, log_path=self._log_path)

    def stop(self) -> None:
        """Shut down in good order."""
        end(self.process, signal.SIGTERM, grace_s=STOP_S)
        self._process = None

    def kill(self) -> None:
        """`kill -9`: the node gets no chance to write anything down."""
        signal_group(self.process, signal.SIGKILL)
        self.process.wait()
        self._process = None

    def pause(self) -> None:
        """Stop the world: connections stay open and nobody answers.

        Its threads run on for a moment after the signal, so this waits until the last one has stopped.
        """
        signal_group(self.process, signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        signal_group(self.process, signal.SIGCONT)

    def queues(self) -> dict[str, int]:
        """Every queue, stream and home at the node, and how many messages it holds."""
        ctl = str(Path(self._server).with_name("rabbitmqctl"))
        command = [ctl, "--quiet", "list_queues", "name", "messages", "--formatter", "json"]
        done = subprocess.run(
            command, capture_output=True, check=True, env=self._environment(), cwd=self.folder
        )
        rows = TypeAdapter(list[_QueueRow]).validate_json(done.stdout)
        return {row["name"]: row["messages"] for row in rows}

    def close(self) -> None:
        """Kill what runs and forget the data."""
        if self._process is not None:
            self.kill()
        if self._epmd is not None:
            end(self._epmd, signal.SIGKILL, grace_s=STOP_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _log_path(self) -> Path:
        return self.folder / "console.log"

    def _is_ready(self) -> bool:
        """The node accepts connections before it serves them: only an answer counts."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1.0) as connection:
                connection.settimeout(5.0)
                connection.sendall(AMQP_HEADER)
                return connection.recv(1) == b"\x01"
        except OSError:
            return False

    def _write_files(self) -> None:
        cookie = self.folder / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(16))
        cookie.chmod(0o400)  # Erlang refuses a cookie that others can read
        (self.folder / "enabled_plugins").write_text("[].\n")
        (self.folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\n"
            f"default_pass = {self._password}\n"
            "disk_free_limit.absolute = 50MB\n"
            "vm_memory_high_watermark.absolute = 2GB\n"
            "raft.wal_max_size_bytes = 64000000\n"  # what quorum queues keep in memory besides
        )

    def _environment(self) -> dict[str, str]:
        ours = {k: v for k, v in os.environ.items() if not k.startswith(("RABBITMQ_", "ERL_"))}
        folder = str(self.folder)
        return ours | {
            "HOME": folder,
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_ALLOW_INPUT": "1",  # makes the script exec the VM, so that our child is it
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/none",  # or /etc/rabbitmq leaks in
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_FEATURE_FLAGS_FILE": f"{folder}/feature_flags",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{folder}/generated",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_NODENAME": NODE,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _LOOPBACK_ONLY,
            "RABBITMQ_SERVER_START_ARGS": "-noinput +B i",
        }


def _server_script() -> str:
    """The real start script: Debian's wrapper changes the user and drops the environment."""
    found = sorted(glob.glob("/usr/lib/rabbitmq/lib/rabbitmq_server-*/sbin/rabbitmq-server"))
    script = found[-1] if found else shutil.which("rabbitmq-server")
    if script is None:
        pytest.fail("rabbitmq-server is not installed: apt-get install rabbitmq-server")
    return script


@contextmanager
def running_rabbit() -> Generator[PrivateRabbit]:
    """A node of one's own, from its boot to its end."""
    node = PrivateRabbit(Path(tempfile.mkdtemp(prefix="warren-rabbit-")))
    try:
        node.start()
        yield node
    finally:
        node.close()


@pytest.fixture(scope="session")
def doomed_rabbit() -> Iterator[PrivateRabbit]:
    """A node that tests kill: with all the other tests' queues it would boot for long.

    Whoever takes it leaves it running.
    """
    with running_rabbit() as node:
        yield node


@pytest.fixture(scope="session")
def private_rabbit() -> Iterator[PrivateRabbit]:
    """One running node for the whole session; tests keep apart by a prefix of their own."""
    with running_rabbit() as node:
        yield node
