"""What a server calls the task of an episode: asked for once the episode has begun, and needed by none.

Invariant: an episode that would be played without an id is played, whatever the server makes of this one request.
"""

import asyncio
import logging
from functools import lru_cache

from warren_env_worker.environments.ors.server import OrsFailed, OrsServer

log = logging.getLogger(__name__)


async def told_id(server: OrsServer, split: str, number: int, *, patience_s: float) -> str | None:
    """None for a task without an id, and where the server gives no answer that can be used."""
    try:
        async with asyncio.timeout(patience_s):
            return await server.task_id(split, number)
    except (OrsFailed, TimeoutError) as error:
        _warn_once(str(server.url), str(error) or f"no answer within {patience_s:g} s")
    return None


@lru_cache(maxsize=256)
def _warn_once(url: str, reason: str) -> None:
    """Of each episode it would be said again."""
    log.warning(
        "%s does not say what its tasks are called, they go by split and number: %s", url, reason
    )
