"""`python -m benchmarks.gpu`: take the steps that are not over, until the time is up.

    --device cpu --shape tiny   the rehearsal: the same steps by the same code, without a GPU
    --results DIR               ledger.jsonl, report.md and log.txt (benchmarks/gpu/results)
    --go-on-from DIR            take over another folder's ledger first, if there is none yet
    --time S                    of this call
    --slower N                  a machine that others use as well: each step may take N times as long
    --only KIND                 steps of this kind alone, left out earlier or not; --again takes them once more
    --unpack DIR                archives and wheels that `make gpu-pack` gathered

Call it again, and it goes on with the next step. It needs nothing but Python itself.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.gpu.ledger import Ledger
from benchmarks.gpu.packing import unpack
from benchmarks.gpu.plan import CALL_S, SHAPES, Step, plan
from benchmarks.gpu.runner import Ended, run_step
from benchmarks.gpu.table import report

ROOT = Path(__file__).parents[2]
PARTS = ("schemas", "broker", "gateway", "gpu_worker", "env_worker", "sdk", "deploy", ".")
_KILL_S = 5.0
"""Kept back of the time of a call."""


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Of these words, by default those of the command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.gpu", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", action="append", choices=("tiny", *SHAPES))
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "gpu" / "results")
    parser.add_argument("--go-on-from", type=Path)
    parser.add_argument("--scratch", type=Path, default=Path("/tmp/warren-gpu"))
    parser.add_argument("--time", type=float, default=CALL_S)
    parser.add_argument("--slower", type=float, default=1.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--unpack", type=Path)
    return parser.parse_args(words)


RunStep = Callable[[Step, float, Ledger], Ended]
"""Takes a step within so many seconds; its figures go into the ledger."""


def take_steps(steps: list[Step], ledger: Ledger, given: argparse.Namespace, run: RunStep) -> None:
    """Until all are over or the time is up; the report is written anew after each."""
    until_s = time.monotonic() + given.time - _KILL_S
    for step in steps:
        left_s = until_s - time.monotonic()
        if not _is_wanted(step, ledger, given) or left_s < step.expected_s:
            continue
        ledger.begin(step.name)
        print(f"{step.name} …", flush=True)
        own_s = given.slower * step.limit_s
        limit_s = min(own_s, left_s)
        ended = run(step, limit_s, ledger)
        was_cut = ended.outcome == "timed out" and limit_s < own_s
        if not was_cut:
            ledger.end(step.name, ended.outcome, ended.took_s, ended.reason)
        print(f"  {'cut off' if was_cut else ended.outcome} {ended.took_s:.0f} s {ended.reason}")
        write_report(steps, ledger, given)


def _is_wanted(step: Step, ledger: Ledger, given: argparse.Namespace) -> bool:
    """One that was left out may have what it lacked by now, but only who asks for it knows."""
    record = ledger.record(step.name)
    was_left_out = bool(given.only) and record.outcome == "left out"
    is_open = given.again or was_left_out or not record.is_over
    return is_open and step.name.startswith(given.only)


def run_here(
    step: Step, limit_s: float, ledger: Ledger, *, given: argparse.Namespace, site: str
) -> Ended:
    """In a process of its own, which finds the code of this checkout and of `site`."""
    command = [sys.executable, "-m", "benchmarks.gpu.step", given.device, str(given.scratch)]
    environment = {
        "PYTHONPATH": os.pathsep.join([*(str(ROOT / part) for part in PARTS), site]),
        "WARREN_HOME": str(given.scratch / "home"),
        "VLLM_USE_FLASHINFER_SAMPLER": "0",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "WARREN_GPU_ATTENTION": str(ledger.found("attention") or ""),
        "WARREN_GPU_TFLOPS": str(ledger.found("bf16 TFLOP/s") or ""),
        "OMP_NUM_THREADS": "1" if given.device == "cpu" else "4",
    }
    return run_step(
        [*command, *step.name.split()],
        limit_s=limit_s,
        report=partial(ledger.add, step.name),
        log=given.results / "log.txt",
        environment=environment,
    )


def write_report(steps: list[Step], ledger: Ledger, given: argparse.Namespace) -> None:
    machine = ledger.found("GPU") or platform.processor() or "a CPU"
    heading = f"Warren at {ledger.found('commit')} on {machine}"
    file = given.results / "report.md"
    draft = file.with_suffix(".new")
    draft.write_text(report(steps, ledger, heading))
    draft.replace(file)


def commit() -> str:
    """Of this checkout; empty where there is no git, or no repository."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return ""
    return told.stdout.strip()


def call(given: argparse.Namespace, steps: list[Step], run: RunStep) -> None:
    """Take steps for as long as this call may; what other calls took is not taken again."""
    given.results.mkdir(parents=True, exist_ok=True)
    given.scratch.mkdir(parents=True, exist_ok=True)
    file = given.results / "ledger.jsonl"
    if given.go_on_from and not file.exists() and (given.go_on_from / file.name).exists():
        shutil.copy(given.go_on_from / file.name, file)
    ledger = Ledger(file)
    if ledger.found("commit") is None:
        ledger.add("call", {"commit": commit() or os.environ.get("WARREN_COMMIT", "unknown")})
    try:
        take_steps(steps, ledger, given, run)
    finally:
        write_report(steps, ledger, given)
    n_open = sum(not ledger.record(step.name).is_over for step in steps)
    told = f"{n_open} steps are left" if n_open else "all steps are over"
    print(told, given.results / "report.md")


def main() -> None:
    given = options()
    site = unpack(given.unpack, given.scratch / "site") if given.unpack else ""
    steps = plan(tuple(given.shape or SHAPES))
    call(given, steps, partial(run_here, given=given, site=site))


if __name__ == "__main__":
    main()
