"""The broker through a gateway: for workers that reach no broker, only HTTPS.

The third implementation of the port, of the part of it that an env worker uses (`port.WorkBroker`).
One WebSocket carries `frames` both ways. The gateway's end (`warren_gateway.remote`) consumes and
publishes in the worker's place, as far as the owner of the API key may.

Promises, beside those of the port:
- A delivery belongs to the session that it came by. When the socket is lost, the gateway hands
  back everything unsettled, and settling it later does nothing.
- A publish is tried again, with the same message id, until the gateway has the broker's confirm or
  the caller's deadline has passed.
- After a reconnect, to the same gateway or another one, every consumer is there again.
"""

from warren_broker.remote.broker import RemoteBroker, open_remote

__all__ = ["RemoteBroker", "open_remote"]
