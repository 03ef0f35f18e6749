"""`make gpu` with steps that measure nothing, and kill whoever takes them, each once: at its first attempt, after its first
figure. `python -m tests.support.killed_gpu_steps --results DIR --scratch DIR`, until it says that all are over."""

import os
import signal
import sys
from functools import partial

from benchmarks.gpu.__main__ import call, options
from benchmarks.gpu.ledger import Ledger
from benchmarks.gpu.plan import Step
from benchmarks.gpu.runner import Ended, run_step

STEPS = [Step(name, 0.0, 100.0) for name in ("machine", "update tiny lora", "update tiny full")]
_STEP = "import sys; from tests.support.killed_gpu_steps import step; step(*sys.argv[1:])"


def step(attempt: str) -> None:
    """Two figures; those of an attempt that is cut off belong to nobody."""
    from benchmarks.gpu.step import follow_starter

    follow_starter()
    print(f'{{"attempt": {attempt}}}', flush=True)
    if attempt == "1":
        os.kill(os.getppid(), signal.SIGKILL)
        signal.pause()
    print('{"last": true}', flush=True)


def main() -> None:
    given = options()

    def run(taken: Step, limit_s: float, ledger: Ledger) -> Ended:
        return run_step(
            [sys.executable, "-c", _STEP, str(ledger.record(taken.name).n_attempts)],
            limit_s=limit_s,
            report=partial(ledger.add, taken.name),
            log=given.results / "log.txt",
            environment={},
        )

    call(given, STEPS, run)


if __name__ == "__main__":
    main()
