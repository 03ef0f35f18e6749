"""Limits of sandboxes: what may be written for each, by a config for its own and by an operator as the most.

The bounds are those of what a machine can be asked for: beyond them a number would overflow the calls
that set it.
"""

from typing import Annotated

from pydantic import Field

CellSeconds = Annotated[float, Field(gt=0, le=86_400)]
MemoryMib = Annotated[int, Field(ge=1, le=1 << 20)]
Processes = Annotated[int, Field(ge=1, le=1 << 15)]
DiskMib = Annotated[int, Field(ge=1, le=1 << 20)]
Files = Annotated[int, Field(ge=1, le=10_000_000)]
OutputBytes = Annotated[int, Field(ge=1, le=1 << 20)]
