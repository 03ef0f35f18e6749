"""The training child's processes, and what tests of it compare."""

import os
import resource
import signal
from pathlib import Path

from tests.support.trainer import (
    apply_all,
    done,
    engine_for,
    opened,
    seal_of,
)

from warren_schemas.training import (
    ModelSpec,
    OpBody,
    OpOutcome,
    SaveState,
)

END = SaveState(name="end")


def child_pid(rank: int = 0) -> int:
    """The training child of this process."""
    ours = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids = [int(pid) for file in ours for pid in file.read_text().split()]
    (found,) = [pid for pid in pids if _rank_of(pid) == rank]
    return found


def _rank_of(pid: int) -> int | None:
    """None for what is no training child: -m MODULE NAME, with the rank in it if there are several."""
    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    module = b"warren_gpu_worker.trainer.child.main"
    if module not in arguments:
        return None
    name = arguments[arguments.index(module) + 1]
    return int(name.rpartition(b", rank ")[2]) if b", rank " in name else 0


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
