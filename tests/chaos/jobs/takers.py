"""Who has just taken a job: it keeps room for it, and the lease is not granted yet."""

import asyncio
from pathlib import Path

from tests.chaos.part import Part
from tests.chaos.site import Site

LOOK_S = 0.02
TAKING = b": taking model_"


async def next_taker(site: Site) -> Part:
    """The next GPU worker that says so in its log, and is well. Nothing happens between that and its return."""
    parts = site.of_role("gpu")
    known = {part.name: part.log_path.stat().st_size for part in parts}
    while True:
        for part in parts:
            is_well = part.is_alive and not part.is_frozen
            if TAKING in _news(part.log_path, known) and is_well:
                return part
        await asyncio.sleep(LOOK_S)


def _news(path: Path, known: dict[str, int]) -> bytes:
    """What was written since the last look."""
    with path.open("rb") as log:
        log.seek(known[path.stem])
        news = log.read()
    known[path.stem] += len(news)
    return news
