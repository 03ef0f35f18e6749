"""One step in a process of its own: its figures as they come, its time limit, its end.

Invariants: a step that takes longer than its limit is killed with all that it started; what it had
reported by then is kept. A step whose starter is gone kills itself (see `step.follow_starter`).
"""

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gpu.ledger import Figures, Outcome

_LAST_LINES = 3
LEFT_OUT = 3
"""Exit status of a step that has nothing to do here; its last line says why."""


@dataclass(frozen=True)
class Ended:
    outcome: Outcome
    took_s: float
    reason: str = ""


def run_step(
    command: Sequence[str],
    *,
    limit_s: float,
    report: Callable[[Figures], None],
    log: Path,
    environment: Mapping[str, str],
) -> Ended:
    """Run it to its end, or to the limit. Figures are lines of JSON that it prints."""
    began_s = time.monotonic()
    with log.open("ab") as errors:
        start = errors.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,  # closed when this process ends, however it ends
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        try:
            in_time = _read(process, began_s + limit_s, report)
        finally:
            _kill(process)
    took_s = time.monotonic() - began_s
    if not in_time:
        return Ended("timed out", took_s, f"longer than {limit_s:.0f} s")
    if process.returncode == 0:
        return Ended("done", took_s)
    outcome: Outcome = "left out" if process.returncode == LEFT_OUT else "failed"
    return Ended(outcome, took_s, _last_words(log, start) or f"status {process.returncode}")


def _read(
    process: "subprocess.Popen[bytes]", until_s: float, report: Callable[[Figures], None]
) -> bool:
    """Whether it ended by itself in time."""
    assert process.stdout is not None
    output, rest = process.stdout.fileno(), b""
    with selectors.DefaultSelector() as selector:
        selector.register(output, selectors.EVENT_READ)
        while (left_s := until_s - time.monotonic()) > 0:
            if not selector.select(left_s):
                return False
            if not (read := os.read(output, 65_536)):
                break
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                report(json.loads(line))
        else:
            return False
    try:
        process.wait(max(0.1, until_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """The step and whatever it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def _last_words(log: Path, start: int) -> str:
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode(errors="replace").strip().splitlines()
    told = [line.strip() for line in lines[-_LAST_LINES:] if line.strip()]
    return told[-1][:300] if told else ""
