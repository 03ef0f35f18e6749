"""The trainer: a supervisor that holds leases of models, and the child process that trains them.

service     announces the worker, opens and closes models, restarts the child
lease       the ops of one model: in order, exactly once, each answered
process     the child as seen by the supervisor
frames      what travels between supervisor and child
child       the child's main
engine      models by lease, ops to outcomes
model       one model: weights, optimizer, gradient
batching    a batch of tokens as padded micro-batches
logprobs    logprobs of tokens without keeping the logits
metrics     what a forward_backward reports
checkpoint  a model's whole state on disk
"""
