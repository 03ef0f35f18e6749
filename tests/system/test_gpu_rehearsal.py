"""The rehearsal of `make gpu` on a CPU, all its steps on a tiny shape, each killed once with whoever takes it."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.gpu.plan import plan
from tests.support.patience import whole_deployment

ROOT = Path(__file__).parents[2]
STEPS = plan(("tiny",))
LEFT_OUT = ("sleep", "trl_grpo")
"""vLLM does not sleep on a CPU, and TRL is in a virtual environment of its own."""
AS_LONG_AS_IT_TAKES = ("--time", "2400", "--slower", "20")
"""Limits are for machines that measure; this one may have a lot else to do."""


def begin_call(folder: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--shape", "tiny"]
    folders = ["--results", str(folder), "--scratch", str(folder.parent / "scratch")]
    return subprocess.Popen(
        [*command, *folders, *AS_LONG_AS_IT_TAKES],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])},
        stdout=subprocess.PIPE,
        text=True,
    )


def killed_in(driver: "subprocess.Popen[str]", killed: set[str]) -> bool:
    """Whether it was killed: as it begins a step in which none was killed before."""
    assert driver.stdout is not None
    with driver.stdout:
        for line in driver.stdout:
            name = line.strip().removesuffix(" …")
            if name != line.strip() and name not in killed:
                killed.add(name)
                os.kill(driver.pid, signal.SIGKILL)
                driver.wait()
                return True
    driver.wait()
    return False


@pytest.mark.storm
@pytest.mark.thorough
@whole_deployment
def test_every_step_is_taken_though_each_was_killed_once(tmp_path: Path) -> None:
    results, killed = tmp_path / "results", set[str]()
    while killed_in(begin_call(results), killed):
        pass
    entries = [json.loads(line) for line in (results / "ledger.jsonl").read_text().splitlines()]
    events = Counter((entry["step"], entry["event"]) for entry in entries)
    for step in STEPS:
        ended = "left out" if step.kind in LEFT_OUT else "done"
        assert (events[step.name, "begun"], events[step.name, ended]) == (2, 1), step.name
    report = (results / "report.md").read_text()
    n_left_out = sum(step.kind in LEFT_OUT for step in STEPS)
    n_done = len(STEPS) - n_left_out
    assert f"{n_done} of {len(STEPS)} steps done, 0 still to do, {n_left_out} ended" in report
