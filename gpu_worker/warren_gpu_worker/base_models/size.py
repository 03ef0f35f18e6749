# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (safetensors has no types)
"""How large a base model is, by the headers of its files.

Invariant: neither torch nor a weight is loaded.
"""

import json
from math import prod
from pathlib import Path
from typing import cast

from safetensors import safe_open


def count_parameters(folder: Path) -> int:
    """Of all weights in the folder's safetensors files."""
    n_parameters = 0
    for file in _weight_files(folder):
        with safe_open(file, "np") as weights:
            for name in cast("list[str]", weights.keys()):
                n_parameters += prod(weights.get_slice(name).get_shape())
    return n_parameters


def _weight_files(folder: Path) -> set[Path]:
    """Those that are loaded: some repositories have the same weights in a second layout, too."""
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.is_file():
        placed = cast("dict[str, str]", json.loads(index.read_text())["weight_map"])
        return {folder / file for file in placed.values()}
    return {single} if single.is_file() else set(folder.glob("*.safetensors"))
