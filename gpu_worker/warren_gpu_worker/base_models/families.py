"""Families of vision-language models whose images are understood.

They share one way to cut images into patches, one kind of positions, and the names of their parts.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path

SEEING = ("qwen2_vl", "qwen2_5_vl")
"""By the `model_type` of their configuration."""
VISION = "model.visual."
"""How the names of the vision tower's modules begin."""
_LANGUAGE = "model.language_model."


def no_adapters_on(model_type: str, exclude: Sequence[str]) -> list[str] | str | None:
    """peft's `exclude_modules`: what a user named, and a vision tower, which samplers keep bare."""
    if model_type not in SEEING:
        return list(exclude) or None
    names = "|".join(re.escape(name) for name in exclude)
    return rf"{re.escape(VISION)}.*" + (rf"|(.*\.)?({names})" if names else "")


def is_seeing(folder: str) -> bool:
    """Whether the model in this folder is of such a family. Raises `OSError`, `ValueError`."""
    config = json.loads((Path(folder) / "config.json").read_text())
    return config.get("model_type") in SEEING


def module_name(weight: str) -> str:
    """The name that modules have for a weight; files of these families may have an older one."""
    if weight.startswith("visual."):
        return f"model.{weight}"
    if weight.startswith("model.") and not weight.startswith((_LANGUAGE, VISION)):
        return _LANGUAGE + weight.removeprefix("model.")
    return weight
