"""Who has just taken a job: it keeps room for it, and the lease is not granted yet."""

import asyncio
from pathlib import Path

from tests.chaos.part import Part
from tests.chaos.site import Site

LOOK_S = 0.02
TAKING = b": taking model_"


async def next_taker(site: Site) -> Part:
    """The next GPU worker that says so in its log."""
    parts = site.of_role("gpu")
    known = {part.name: part.log_path.stat().st_size for part in parts}
    while True:
        for part in parts:
            if TAKING in _since(part.log_path, known[part.name]):
                return part
        await asyncio.sleep(LOOK_S)


def _since(path: Path, offset: int) -> bytes:
    with path.open("rb") as log:
        log.seek(offset)
        return log.read()
