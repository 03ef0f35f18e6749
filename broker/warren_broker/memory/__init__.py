"""The in-process broker: the port's semantics in one process and one event loop.

Queues and topics live in memory and end with the process; streams lie on disk and outlive it. It
needs no server, so `warren up`, the demo and most tests stand on it.

Several parts share one process through a hub, each with a client of its own, so that a part that
stops hands back its own messages and nobody else's:

    async with open_hub(data_dir) as hub:
        gateway, sampler = hub.client("gateway"), hub.client("sampler")
"""

from warren_broker.memory.client import MemoryBroker
from warren_broker.memory.hub import MemoryHub, open_hub, open_memory

__all__ = ["MemoryBroker", "MemoryHub", "open_hub", "open_memory"]
