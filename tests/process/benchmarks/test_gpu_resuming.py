"""`make gpu` that is killed in each of its steps goes on where it stopped, and its report lacks nothing."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.support.killed_gpu_steps import STEPS
from tests.support.patience import PATIENCE_S, several_waits

ROOT = Path(__file__).parents[3]


def call(folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.support.killed_gpu_steps"]
    folders = ["--results", str(folder / "results"), "--scratch", str(folder / "scratch")]
    return subprocess.run(
        [*command, *folders, "--device", "cpu"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([".", *sys.path])},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@several_waits
def test_no_step_that_is_over_is_taken_again_and_the_report_is_complete(tmp_path: Path) -> None:
    killed = [call(tmp_path) for _ in STEPS]
    assert all(each.returncode < 0 for each in killed), killed
    last = call(tmp_path)
    assert "all steps are over" in last.stdout, last.stderr

    ledger = (tmp_path / "results" / "ledger.jsonl").read_text()
    events = Counter(
        (entry["step"], entry["event"]) for entry in map(json.loads, ledger.splitlines())
    )
    for step in STEPS:
        assert (events[step.name, "begun"], events[step.name, "done"]) == (2, 1)
    report = (tmp_path / "results" / "report.md").read_text()
    assert "3 of 3 steps done, 0 still to do, 0 ended otherwise." in report
    assert "| model | attempt |\n| --- | --- |\n| tiny lora | 2 |\n| tiny full | 2 |\n" in report


def test_a_call_after_the_last_one_takes_nothing(tmp_path: Path) -> None:
    for _ in range(len(STEPS) + 1):
        call(tmp_path)
    before = (tmp_path / "results" / "ledger.jsonl").read_bytes()
    assert call(tmp_path).stdout.startswith("all steps are over")
    assert (tmp_path / "results" / "ledger.jsonl").read_bytes() == before
