"""Which policies and checkpoints of a model are kept, and in what order they are."""

import re

__all__ = ["KEEP_POLICIES", "checkpoint_order"]

KEEP_POLICIES = 32
"""Published versions of a model that stay; older ones are deleted."""


_CHECKPOINT = re.compile(r"(sft|step)-(\d+)")


def checkpoint_order(name: str) -> tuple[int, int, str]:
    """Sorts checkpoints of one model by age: a run's SFT is before its steps; others by name."""
    match = _CHECKPOINT.fullmatch(name)
    if match is None:
        return (0, 0, name)
    return (1 if match[1] == "sft" else 2, int(match[2]), "")
