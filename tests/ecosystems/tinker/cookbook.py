"""Recipes of Tinker's cookbook, unmodified: the cookbook's own Python runs them."""

import hashlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.ecosystems.tinker.table import BASE, ROOT
from tests.support.patience import PATIENCE_S
from tests.support.processes import spawn

PYTHON = str(ROOT / ".venv-tinker-cookbook" / "bin" / "python")
ALL = ("renderer_name=role_colon", f"model_name={BASE}", "eval_every=0")
"""What every recipe is told."""
CHAT_SL = (
    "dataset=sums.jsonl",
    "batch_size=4",
    "num_epochs=6",
    "lora_rank=8",
    "learning_rate=1e-2",
)
N_CHAT_SL_STEPS = 24
RL = (
    "env=arithmetic",
    "group_size=4",
    "groups_per_batch=4",
    "max_tokens=12",
    "lora_rank=8",
    "learning_rate=1e-2",
)

Rows = Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Cookbook:
    url: str
    key: str
    folder: Path
    """Where recipes run, and where they look for the tokenizer of the base model's name."""
    tags: Sequence[str] = ()
    """Of the sessions of recipes."""

    def cook(self, recipe: str, *arguments: str, log: str = "log") -> str:
        """What it says."""
        done = subprocess.run(
            self._command(recipe, arguments, log),
            cwd=self.folder,
            env=self._variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return f"{done.stdout}{done.stderr}"

    def begin(self, recipe: str, *arguments: str, log: str) -> "subprocess.Popen[bytes]":
        """Its output is in `output`."""
        command = self._command(recipe, arguments, log)
        return spawn(command, log_path=self.output, environment=self._variables, folder=self.folder)

    @property
    def output(self) -> Path:
        return self.folder / "output.txt"

    def _command(self, recipe: str, arguments: Sequence[str], log: str) -> list[str]:
        module = f"tinker_cookbook.recipes.{recipe}"
        return [PYTHON, "-m", module, *ALL, *arguments, f"log_path={log}"]

    @property
    def _variables(self) -> dict[str, str]:
        ours = {"TINKER_BASE_URL": self.url, "TINKER_API_KEY": self.key, "HF_HUB_OFFLINE": "1"}
        return os.environ | ours | {"TINKER_TAGS": ",".join(self.tags)}

    def write_sums(self) -> None:
        """What `CHAT_SL` learns from."""
        sums = [(first, second) for first in range(4) for second in range(4)]
        lines = [json.dumps({"messages": said(*each)}) for each in sums]
        (self.folder / "sums.jsonl").write_text("\n".join([*lines, ""]))

    def rows(self, of: str, log: str = "log") -> Rows:
        """What was written down of each step that has such a number, until now."""
        file = self.folder / log / "metrics.jsonl"
        lines = file.read_text().splitlines(keepends=True) if file.exists() else []
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        return [row for row in whole if of in row]

    def saved(self, log: str = "log") -> str:
        """The newest state to go on from."""
        lines = (self.folder / log / "checkpoints.jsonl").read_text().splitlines()
        return json.loads(lines[-1])["state_path"]

    def digests(self, log: str = "log") -> Mapping[str, str]:
        """Of the weights and the optimizer of the newest state, by file."""
        run, kind, name = self.saved(log).removeprefix("tinker://").split("/")
        path = f"api/v1/training_runs/{run}/checkpoints/{kind}/{name}/external_weights_urls"
        asked = urllib.request.Request(f"{self.url}/{path}", headers={"X-API-Key": self.key})
        with urllib.request.urlopen(asked) as told:
            urls: Mapping[str, str] = json.load(told)["urls"]
        return {file: _digest(url) for file, url in urls.items() if file.endswith(".safetensors")}


def _digest(url: str) -> str:
    with urllib.request.urlopen(url) as file:
        return hashlib.sha256(file.read()).hexdigest()


def said(first: int, second: int) -> list[dict[str, str]]:
    question = {"role": "user", "content": f"What is {first} + {second}?"}
    return [question, {"role": "assistant", "content": f"{first + second}"}]


def cookbook_in(folder: Path, url: str, key: str, model: str, *tags: str) -> Cookbook:
    """The model lies in this folder."""
    name = folder / BASE
    name.parent.mkdir()
    name.symlink_to(model)
    return Cookbook(url, key, folder, tags)
