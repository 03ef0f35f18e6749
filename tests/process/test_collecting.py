"""Tests that need no torch don't import it: whoever runs a few of them would wait for nothing else."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("broker", "coordinator", "env_worker", "gateway", "rabbitmq", "schemas", "sdk", "up")
PROGRAM = """
import sys
import pytest
assert pytest.main(["--collect-only", "-qq", *sys.argv[1:]]) == 0
sys.exit(" ".join({"torch", "transformers", "vllm"} & sys.modules.keys()) or 0)
"""


def test_tests_of_parts_without_models_import_no_torch() -> None:
    folders = [f"tests/unit/{name}" for name in FOLDERS]
    command = [sys.executable, "-c", PROGRAM, *folders, "tests/compat"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
