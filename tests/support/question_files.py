"""Questions in the layouts that people have them in, and files of them."""

import json
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


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".parquet":
        arrow: Any = import_module("pyarrow")
        import_module("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_lines(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    return path
