"""Names under which a client keeps checkpoints and snapshots of its model."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field


def _not_automatic(name: str) -> str:
    if re.fullmatch(r"op-[0-9]+", name):
        raise ValueError(
            f"{name} is a name of automatic checkpoints (op-NUMBER); choose another one"
        )
    return name


WeightsName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
CheckpointName = Annotated[WeightsName, AfterValidator(_not_automatic)]
"""Of one that its client saves: an automatic one of this name would take its place."""
