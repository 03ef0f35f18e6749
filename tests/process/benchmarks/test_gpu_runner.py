"""A step of `make gpu` in its own process: its figures as they come, its limit, its end."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu.__main__ import call, options
from benchmarks.gpu.ledger import Figures, Ledger
from benchmarks.gpu.plan import Step
from benchmarks.gpu.runner import Ended, run_step
from tests.support.patience import PATIENCE_S, STOP_S
from tests.support.processes import until_dead


def run(code: str, tmp_path: Path, limit_s: float = PATIENCE_S) -> tuple[Ended, list[Figures]]:
    told: list[Figures] = []
    command = [sys.executable, "-c", code]
    log = tmp_path / "log.txt"
    return run_step(command, limit_s=limit_s, report=told.append, log=log, environment={}), told


class TestRunner:
    def test_figures_come_as_they_are_printed(self, tmp_path: Path) -> None:
        ended, told = run("print('{\"n\": 1}'); print('{\"n\": 2}')", tmp_path)
        assert ended.outcome == "done"
        assert told == [{"n": 1}, {"n": 2}]

    def test_what_fails_says_why_and_keeps_its_figures(self, tmp_path: Path) -> None:
        ended, told = run(
            "print('{\"n\": 1}', flush=True); raise SystemExit('no memory')", tmp_path
        )
        assert (ended.outcome, ended.reason) == ("failed", "no memory")
        assert told == [{"n": 1}]

    def test_what_has_nothing_to_do_is_left_out(self, tmp_path: Path) -> None:
        code = "import sys; print('not here', file=sys.stderr); sys.exit(3)"
        ended, _ = run(code, tmp_path)
        assert (ended.outcome, ended.reason) == ("left out", "not here")

    def test_a_steps_own_reason_is_the_last_word(self, tmp_path: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.gpu.step",
            "cpu",
            str(tmp_path),
            "sleep",
            "tiny",
        ]
        ended = run_step(
            command,
            limit_s=PATIENCE_S,
            report=lambda _: None,
            log=tmp_path / "log.txt",
            environment={"PYTHONPATH": os.pathsep.join([".", *sys.path])},
        )
        assert ended.outcome == "left out"
        assert ended.reason == "vLLM has no sleep mode on a CPU"

    def test_the_limit_ends_it_with_all_that_it_started(self, tmp_path: Path) -> None:
        code = (
            "import subprocess, sys, time\n"
            "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
            "print('{\"pid\": %d}' % child.pid, flush=True)\n"
            "time.sleep(600)\n"
        )
        for limit_s in (3.0, 30.0, PATIENCE_S):
            ended, told = run(code, tmp_path, limit_s)
            assert ended.outcome == "timed out"
            if told:  # it had the time to start another
                break
        (figures,) = told
        pid = figures["pid"]
        assert isinstance(pid, int)
        asyncio.run(until_dead(pid))  # its parent is gone, so it may be a zombie for a moment

    def test_a_step_dies_with_whoever_started_it(self, tmp_path: Path) -> None:
        step = "from benchmarks.gpu.step import follow_starter; follow_starter(); import time; print(1, flush=True); time.sleep(600)"
        process = subprocess.Popen(
            [sys.executable, "-c", step],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[3],
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(STOP_S) < 0
        process.stdout.close()


def test_on_a_machine_that_others_use_steps_may_take_longer(tmp_path: Path) -> None:
    limits, step = list[float](), Step("update tiny full", 1.0, 2.0)

    def note(_: Step, limit_s: float, __: Ledger) -> Ended:
        limits.append(limit_s)
        return Ended("done", 0.0, "")

    for slower in ("1", "20"):
        folder = tmp_path / slower
        given = options(["--results", str(folder), "--scratch", str(folder), "--slower", slower])
        call(given, [step], note)
    assert limits == [2.0, 40.0]


def test_what_was_left_out_is_taken_when_it_is_asked_for(tmp_path: Path) -> None:
    taken = list[str]()
    steps = [Step(name, 1.0, 2.0) for name in ("sleep tiny", "trl_grpo tiny")]

    def note(step: Step, _: float, __: Ledger) -> Ended:
        taken.append(step.name)
        return Ended("left out", 0.0, "it is not installed")

    for more in ([], [], ["--only", "trl_grpo"]):
        call(options(["--results", str(tmp_path), "--scratch", str(tmp_path), *more]), steps, note)
    assert taken == ["sleep tiny", "trl_grpo tiny", "trl_grpo tiny"]
