"""The training child's processes, and what tests of it compare."""

import os
import resource
import signal
from pathlib import Path

from tests.support.processes import children_running, command_line, descendants, forks_running
from tests.support.trainer import (
    apply_all,
    done,
    engine_for,
    opened,
    seal_of,
)

from warren_gpu_worker.trainer.supervisor.rank_processes import AGENT_MODULE, CHILD_MODULE
from warren_schemas.training import (
    ModelSpec,
    OpBody,
    OpOutcome,
    SaveState,
)

END = SaveState(name="end")


def child_pid(rank: int = 0) -> int:
    """The training child of this process, or of what it has started; one of several ranks is a child of an agent."""
    (found,) = [pid for pid in descendants(os.getpid()) if _rank_of(pid) == rank]
    return found


def agent_pid(*, joins: bool = False) -> int:
    """What has started the ranks of this machine, or of the one that joins."""
    agents = [*children_running(AGENT_MODULE), *forks_running(AGENT_MODULE)]
    (found,) = [pid for pid in agents if ("ranks for" in command_line(pid)) == joins]
    return found


def _rank_of(pid: int) -> int | None:
    """None for what is no training child: -m MODULE NAME, with the rank in it if there are several."""
    command = command_line(pid).replace("\0", " ").strip()
    _, is_trainer, name = command.partition(f"-m {CHILD_MODULE} ")
    if not is_trainer:
        return None
    return int(name.rpartition(", rank ")[2]) if ", rank " in name else 0


def kill_child(signum: signal.Signals = signal.SIGKILL, rank: int = 0) -> None:
    os.kill(child_pid(rank), signum)


def size_bytes(pid: int) -> int:
    """Of the process's address space."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()[0]
    return int(pages) * resource.getpagesize()


def policy_of(outcome: OpOutcome) -> str:
    policy = done(outcome).policy
    assert policy is not None
    return policy.url


def uninterrupted(base_folder: Path, folder: Path, spec: ModelSpec, ops: list[OpBody]) -> str:
    engine = opened(engine_for(base_folder, folder), spec)
    return seal_of(apply_all(engine, ops)[-1])
