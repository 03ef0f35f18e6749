"""Checkpoints of a process that is killed while it saves."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from tests.support.trainer import (
    LORA,
    MODEL,
    done,
    engine_for,
    opened,
    save,
)

from warren_schemas.training import OpDone

KILLED_WHILE_SAVING = textwrap.dedent(
    """
    import os, signal, sys, threading
    from pathlib import Path
    from tests.support.trainer import *
    from warren_schemas.training import SaveState

    def save_and_die(victim):
        engine = opened(engine_for(Path(base), f"{checkpoints}/{victim}"), LORA)
        done(engine.apply(MODEL, 1, SaveState(name="it")))
        apply_all(engine, some_ops(3), first=2)

        def kill_at_victim(frame, event, function):
            called = frame.f_code.co_name if event == "call" else getattr(function, "__name__", "")
            if event in ("call", "c_call") and called == victim:
                os.kill(os.getpid(), signal.SIGKILL)

        threading.setprofile(kill_at_victim)  # of those that are begun from here on
        sys.setprofile(kill_at_victim)
        engine.apply(MODEL, 5, SaveState(name="it"))

    base, checkpoints, *victims = sys.argv[1:]
    for victim in victims:
        if not (child := os.fork()):
            save_and_die(victim)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        print(victim, os.waitstatus_to_exitcode(status), flush=True)
    """
)
VICTIMS = ("_digest", "_seal", "_sync", "_set_aside", "rename", "_remove")
"""Functions of a save; each is called by a process that dies of it."""


def test_a_kill_in_the_middle_of_a_save_leaves_a_whole_checkpoint(
    base_folder: Path, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", KILLED_WHILE_SAVING, str(base_folder), str(tmp_path), *VICTIMS]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    said = [f"{victim} {-signal.SIGKILL}" for victim in VICTIMS]
    assert killed.stdout.splitlines() == said, killed.stderr
    for victim in VICTIMS:
        a_whole_one_is_left(base_folder, tmp_path / victim)


def a_whole_one_is_left(base_folder: Path, checkpoints: Path) -> None:
    url = str(checkpoints / MODEL / "states" / "it")
    engine = engine_for(base_folder, checkpoints)
    outcomes = [engine.open(MODEL, LORA, checkpoint_url=url, next_op=n) for n in (2, 6)]
    assert sum(isinstance(outcome, OpDone) for outcome in outcomes) == 1
    opened(engine, LORA)
    save(engine, 1)
    done(engine.open(MODEL, LORA, checkpoint_url=url, next_op=2))
