"""What any trainer may do: delete the files of models whose runs were deleted.

Invariants: an order is settled when the files are gone; it may come twice. A place that can't be
reached is tried again later, so the order goes to the dead letters only after many tries.
"""

import asyncio
import logging
from collections.abc import Callable

from warren_broker.inbox import receive
from warren_broker.port import Broker
from warren_broker.topology import FILE_CLEANUP
from warren_gpu_worker.atomic_folder import delete_folder, join_url
from warren_schemas.training import DeleteModel

_RETRY_S = 30.0

log = logging.getLogger(__name__)


async def clean_up_files(
    broker: Broker,
    checkpoint_url: str,
    *,
    retry_s: float = _RETRY_S,
    delete: Callable[[str], None] = delete_folder,
) -> None:
    """Until cancelled. Raises `BrokerClosed`. `delete` is called in a thread, with a folder's URL."""
    await broker.declare(FILE_CLEANUP)
    async with receive(broker, FILE_CLEANUP, DeleteModel, prefetch=1) as inbox:
        async for claims in inbox:
            for claim in claims:
                model = claim.item.model
                try:
                    await asyncio.to_thread(delete, join_url(checkpoint_url, model))
                except Exception as error:  # noqa: BLE001 - a store has errors of its own
                    log.warning("the files of %s can't be deleted now: %s", model, error)
                    claim.hand_back(delay_s=retry_s)
                else:
                    log.info("the files of %s are deleted", model)
                    claim.done()
