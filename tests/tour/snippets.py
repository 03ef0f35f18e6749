"""Blocks that are no whole program: classes are checked as `warren env check` does, pieces of configs
are read by what reads the whole."""

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

import yaml
from tests.tour.pages import Block

from warren_schemas.config import TrainConfig

WHOLE = {"name": "a", "model": {"base": "warren/tiny"}, "environments": [{"name": "guess"}]}
"""What a piece of a config is a piece of."""
DATA = {"train.jsonl": '{"question": "2+2?", "answer": "4"}\n{"question": "3+3?", "answer": "6"}\n'}
"""The reader's own, in the folder where the commands are typed."""


def check_classes(
    folder: Path, block: Block, sources: Sequence[str], later: Sequence[Block]
) -> None:
    """Write the module, and let `warren env check` find nothing wrong with its environments."""
    imports = [line for source in (*sources, block.text) for line in _imports(source)]
    for name in _environments(block.text):
        path = folder / _file_of(name, later)
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*dict.fromkeys(imports), "", block.text]))
        for data, text in DATA.items():
            (folder / data).write_text(text)
        module = str(path.relative_to(folder).with_suffix("")).replace("/", ".")
        done = subprocess.run(
            [sys.executable, "-m", "warren", "env", "check", f"{module}:{name}"],
            cwd=folder, env={**os.environ, "WARREN_HOME": str(folder / "home")},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{block}: {done.stdout}{done.stderr}"


def check_config(block: Block) -> None:
    """A whole config, or a piece of one."""
    TrainConfig.model_validate(WHOLE | yaml.safe_load(block.text))


def check_entry_point(block: Block) -> None:
    groups = tomllib.loads(block.text)["project"]["entry-points"]
    offered = [reference for group in groups.values() for reference in group.values()]
    assert offered and all(re.fullmatch(r"[\w.]+:\w+", reference) for reference in offered)


def _imports(source: str) -> list[str]:
    return [
        ast.unparse(each)
        for each in ast.parse(source).body
        if isinstance(each, ast.Import | ast.ImportFrom)
    ]


def _environments(source: str) -> list[str]:
    classes = [each for each in ast.parse(source).body if isinstance(each, ast.ClassDef)]
    return [each.name for each in classes if any("Env" in ast.unparse(b) for b in each.bases)]


def _file_of(name: str, later: Sequence[Block]) -> str:
    """Where a later command looks for the class, or a module of its own."""
    for block in later:
        if found := re.search(rf"([\w.]+):{name}\b", block.text):
            return found[1].replace(".", "/") + ".py"
    return f"{name.lower()}_of_the_page.py"
