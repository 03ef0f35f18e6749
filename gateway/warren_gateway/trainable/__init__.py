"""Models that clients train by loops of their own: the training primitives as a service, for every API.

A client's model is a run of another source: what holds for runs (owner, queue, leases, failover, usage, shares,
steering) holds for it. What is asked of it are requests, which its coordinator (`coordinator.clients`) makes ops of.

service     what the faces call
creating    a model, its run and what it begins with
batches     data -> the batch of an op
submitting  an op that is asked for -> a request
outcomes    requests -> what came of them, waited for
kept        checkpoints and snapshots
"""
