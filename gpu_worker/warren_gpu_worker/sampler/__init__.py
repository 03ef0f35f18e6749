"""The sampler: the policy's turns, from `Generate` to `Step`, token in and token out.

A turn's way:

    supervisor/turn_queues       two queues: the one that all samplers share, and this sampler's own
    supervisor/turn_dispatcher   a claim becomes a request, its answer becomes a successor
    supervisor/child_process     requests in, answers out; the child is started again when it dies
    messages                     what the two processes say to each other
    child/turns                  chat to tokens (`renderer`), through the engine, back to text
    child/policy_loader          a request waits until its policy is loaded
    engines/port                 what every engine implements; `choice` says which one samples here
    supervisor/results           the successor is published, and then the claim is settled

`supervisor/` runs on the worker's event loop and never computes. `child/` is the program of the child
process. `engines/vllm` and `engines/transformers` are the two engines.
"""
