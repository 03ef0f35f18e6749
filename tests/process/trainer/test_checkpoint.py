"""Checkpoints of a process that is killed while it saves."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
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
    import os, signal, sys
    from pathlib import Path
    from tests.support.trainer import *
    from warren_schemas.training import SaveState

    base, checkpoints, victim = sys.argv[1:]
    engine = opened(engine_for(Path(base), checkpoints), LORA)
    done(engine.apply(MODEL, 1, SaveState(name="it")))
    apply_all(engine, some_ops(3), first=2)

    def kill_at_victim(frame, event, function):
        called = frame.f_code.co_name if event == "call" else getattr(function, "__name__", "")
        if event in ("call", "c_call") and called == victim:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(kill_at_victim)
    engine.apply(MODEL, 5, SaveState(name="it"))
    """
)


@pytest.mark.parametrize("victim", ["_digest", "_seal", "_sync", "_set_aside", "rename", "_remove"])
def test_a_kill_in_the_middle_of_a_save_leaves_a_whole_checkpoint(
    base_folder: Path, tmp_path: Path, victim: str
) -> None:
    command = [sys.executable, "-c", KILLED_WHILE_SAVING, str(base_folder), str(tmp_path), victim]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = subprocess.run(command, env=environment, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    url = str(tmp_path / MODEL / "states" / "it")
    engine = engine_for(base_folder, tmp_path)
    outcomes = [engine.open(MODEL, LORA, checkpoint_url=url, next_op=n) for n in (2, 6)]
    assert sum(isinstance(outcome, OpDone) for outcome in outcomes) == 1
    opened(engine, LORA)
    save(engine, 1)
    done(engine.open(MODEL, LORA, checkpoint_url=url, next_op=2))
