"""The trainer: a supervisor that holds leases of models, and the child process that trains them.

In the supervisor
    service     announces the worker, opens and closes models
    lease       one model: its ops in, its answers out
    sequence    ops in order and exactly once, whatever order their messages come in
    process     the child: orders in, answers out, started again when it dies
    frames      what travels between the two

In the child
    child       its main
    engine      models by id, and what each op does to them
    model       one model: weights, optimizer, gradient
    gradient    forward_backward, with batching, logprobs and metrics
    step        optim_step
    publishing  publish_policy
    checkpoint  save_state, and going on from it
"""
