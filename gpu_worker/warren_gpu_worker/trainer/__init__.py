"""The trainer: a supervisor that holds leases of models, and the child process that trains them.

In the supervisor
    service     announces the worker, opens and closes models
    lease       one model: its ops in, its answers out
    sequence    ops in order and exactly once, whatever order their messages come in
    shares      whose op the child gets next
    chores      what any trainer may do: deleting files of models
    process     the child: orders in, answers out, started again when it dies
    frames      what travels between the two

In the child
    child       its main
    engine      models by id, and what each op does to them
    model       one model: weights, optimizer, gradient
    gradient    forward and forward_backward, with batching, logprobs and metrics
    together    forward_backward of several models in one batch
    stacked     the decoder that such a batch goes through
    reference   the weights that KL penalties compare with
    activations gradient checkpointing
    start_adapter   a LoRA model that starts with somebody's adapter
    parking     idle adapters go to a file and come back
    step        optim_step
    publishing  publish_policy
    checkpoint  save_state and load_state, and going on from a checkpoint
    errors      what can be wrong with an op, in words
"""
