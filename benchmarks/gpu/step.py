"""A step's own process: `python -m benchmarks.gpu.step OPTIONS NAME`; prints figures as lines of JSON."""

import importlib
import json
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

from benchmarks.gpu.ledger import Scalar
from benchmarks.gpu.runner import LEFT_OUT


class LeaveOut(Exception):
    """There is nothing for this step to do here; says why."""


@dataclass(frozen=True)
class Setting:
    """What steps are told."""

    device: str
    scratch: Path
    """Models and whatever else may be made again."""
    out: TextIO

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    def report(self, **figures: Scalar) -> None:
        """Written at once: what comes after may be cut off."""
        print(json.dumps(figures), file=self.out, flush=True)


def follow_starter() -> None:
    """Die, with all that this process started, as soon as whoever started it is gone."""

    def watch() -> None:
        while os.read(0, 1):  # not by `sys.stdin`, whose lock would be held at the end
            pass
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def own_output() -> TextIO:
    """Where figures go; what others print goes to the log."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def main() -> None:
    device, scratch, kind, *words = sys.argv[1:]
    follow_starter()
    setting = Setting(device, Path(scratch), own_output())
    logging.basicConfig(level=logging.WARNING)
    logging.captureWarnings(capture=True)
    os._exit(_status(setting, kind, words))  # an engine's threads need not be waited for


def _status(setting: Setting, kind: str, words: list[str]) -> int:
    """Of the process; the last line of the log says why it is not 0."""
    try:
        module = importlib.import_module(f"benchmarks.gpu.steps.{kind}")
        cast("Callable[..., None]", module.run)(setting, *words)
    except LeaveOut as reason:
        print(reason, file=sys.stderr, flush=True)
        return LEFT_OUT
    except SystemExit as reason:
        print(reason, file=sys.stderr, flush=True)
        return 1
    except BaseException:  # noqa: BLE001 - told, whatever it is
        traceback.print_exc()
        sys.stderr.flush()
        return 1
    return 0


if __name__ == "__main__":
    from benchmarks.gpu.step import main as run  # so that `LeaveOut` is one class, not two

    run()
