"""What any trainer may do: delete the files of models whose runs were deleted.

Invariants: an order is settled when the files are gone; it may come twice. A place that can't be
reached is tried again later, so the order goes to the dead letters only after many tries.
"""

import asyncio
import logging

from warren_broker.inbox import Claim, receive
from warren_broker.port import Broker
from warren_broker.topology import FILE_CLEANUP
from warren_gpu_worker.atomic_folder import delete_folder, join_url
from warren_schemas.training import DeleteModel

_AGAIN_S = 30.0

log = logging.getLogger(__name__)


async def clean_up_files(broker: Broker, checkpoint_url: str) -> None:
    """Until cancelled. Raises `BrokerClosed`."""
    await broker.declare(FILE_CLEANUP)
    async with receive(broker, FILE_CLEANUP, DeleteModel, prefetch=1) as inbox:
        async for claims in inbox:
            for claim in claims:
                await _delete(claim, checkpoint_url)


async def _delete(claim: Claim[DeleteModel], checkpoint_url: str) -> None:
    model = claim.item.model
    try:
        await asyncio.to_thread(delete_folder, join_url(checkpoint_url, model))
    except Exception as error:  # noqa: BLE001 - a store has errors of its own
        log.warning("the files of %s can't be deleted now: %s", model, error)
        claim.hand_back(delay_s=_AGAIN_S)
    else:
        log.info("the files of %s are deleted", model)
        claim.done()
