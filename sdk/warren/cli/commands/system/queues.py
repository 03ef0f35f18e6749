"""`warren queues`."""

import asyncio

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import make_output, print_json
from warren.display.tables import print_queues
from warren_schemas.http import QueueList


def queues(*, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List the work queues with the number of messages in each.

    For example:
        warren queues
    """
    return asyncio.run(_queues(gateway, as_json=json))


async def _queues(gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        found = await client.queues()
    if as_json:
        print_json(QueueList(queues=found))
    else:
        print_queues(found, make_output())
    return codes.OK
