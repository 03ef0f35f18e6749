"""Remote env workers: what they ask for is done here, as far as their owner may.

A worker that reaches no broker speaks over a WebSocket (`warren_broker.remote`); a `RemoteSession` consumes
and publishes in its place. Invariant: what a key holder sends can end their own session, and no
more: the gateway's other work, other owners' episodes and the queues of the deployment are out of his
reach.
"""
