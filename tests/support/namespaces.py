"""Another machine, as far as the network can tell: a network namespace with one link to ours."""

import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.processes import run

needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="only root can make a network"
)
_N_NETWORKS = 64 * 256


@dataclass(frozen=True, slots=True)
class OtherMachine:
    name: str
    ours: str
    """Our address on the link."""
    theirs: str

    def cut(self) -> None:
        """Nothing comes through any more, and nobody is told."""
        self._link("down")

    def mend(self) -> None:
        self._link("up")

    def _link(self, state: str) -> None:
        _ip("link", "set", self.name, state)

    def command(self, program: Sequence[str]) -> list[str]:
        """To run this program there, with memory files (`/dev/shm`) of that machine's own."""
        own_memory = 'mount -t tmpfs tmpfs /dev/shm && exec "$0" "$@"'
        return ["ip", "netns", "exec", self.name, "sh", "-c", own_memory, *program]


@contextmanager
def other_machine() -> Generator[OtherMachine]:
    """Gone at the end, with its link. Names and addresses are of this process."""
    name, network = f"warren{os.getpid()}", os.getpid() % _N_NETWORKS
    third, fourth = 192 + network // 256, network % 256
    other = OtherMachine(name, f"10.{third}.{fourth}.1", f"10.{third}.{fourth}.2")
    _ip("netns", "add", name)
    try:
        _ip("link", "add", name, "type", "veth", "peer", "name", "there", "netns", name)
        _ip("address", "add", f"{other.ours}/24", "dev", name)
        _ip("-n", name, "address", "add", f"{other.theirs}/24", "dev", "there")
        _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", name, "link", "set", "there", "up")
        other.mend()
        yield other
    finally:
        _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    run(["ip", *arguments], folder=Path("/"))
