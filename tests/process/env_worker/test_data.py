"""`warren data prepare`, the command."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

CHAT = [{"role": "system", "content": "Think."}, {"role": "user", "content": "6*7?"}]


LAYOUTS: dict[str, dict[str, Any]] = {
    "gsm8k": {"question": "6*7?", "answer": "6*7 is <<6*7=42>>42\n#### 42"},
    "math": {"problem": "6*7?", "solution": r"It is $\boxed{42}$."},
    "deepscaler": {"problem": "6*7?", "answer": "42", "solution": "long"},
    "verl": {
        "prompt": CHAT,
        "reward_model": {"ground_truth": "42", "style": "rule"},
        "data_source": "d",
    },
    "opentinker": {"prompt": CHAT, "ground_truth": "42"},
    "open-r1": {"prompt": "6*7?", "solution": "42"},
}


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        arrow: Any = import_module("pyarrow")
        import_module("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_command(tmp_path: Path) -> None:
    source = write(tmp_path / "in.jsonl", [LAYOUTS["gsm8k"], LAYOUTS["opentinker"]])
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
