"""The step of `make gpu` that measures TRL's GRPOTrainer, on a CPU with the tiny model."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.ecosystems.real_server import ROOT
from tests.support.patience import whole_deployment

PYTHON = ROOT / ".venv-trl" / "bin" / "python"


@pytest.mark.ecosystem_all
@whole_deployment
def test_grpo_by_trl_is_measured_for_lora_and_for_all_weights(tmp_path: Path) -> None:
    results, scratch = tmp_path / "results", tmp_path / "scratch"
    command = [str(PYTHON), "-m", "benchmarks.gpu", "--device", "cpu", "--shape", "tiny"]
    folders = ["--results", str(results), "--scratch", str(scratch)]
    subprocess.run([*command, *folders, "--only", "trl_grpo"], cwd=ROOT, check=True)
    entries = [json.loads(line) for line in (results / "ledger.jsonl").read_text().splitlines()]
    measured = {e["step"] for e in entries if "episodes/s" in e.get("figures", {})}
    ended = {e["step"] for e in entries if e["event"] == "done"}
    assert measured == ended == {"trl_grpo tiny lora", "trl_grpo tiny full"}
