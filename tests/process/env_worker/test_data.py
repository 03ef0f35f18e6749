"""`warren data prepare`, the command."""

import subprocess
import sys
from pathlib import Path

from tests.support.question_files import LAYOUTS, write_rows


def test_the_command(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in.jsonl", [LAYOUTS["gsm8k"], LAYOUTS["opentinker"]])
    command = [sys.executable, "-m", "warren", "data", "prepare"]
    out = ["--out", str(tmp_path / "out")]
    done = subprocess.run(
        [*command, str(source), *out], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "train.jsonl: 2 questions" in done.stdout
    gone = subprocess.run([*command, "no.jsonl", *out], capture_output=True, text=True, check=False)
    assert gone.returncode == 2
    assert "Traceback" not in gone.stderr
