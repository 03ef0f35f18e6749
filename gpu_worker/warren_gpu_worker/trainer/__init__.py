"""The trainer: a supervisor that holds leases of models, and the child process that trains them.

An op's way:

    supervisor/service        announces the worker, opens and closes models
    supervisor/model_lease    one model: its ops in, its answers out
    supervisor/op_order       ops in order and exactly once, whatever order their messages come in
    supervisor/fair_share     whose op the child gets next
    supervisor/child_process  orders in, answers out; the child (one process, or one for each GPU:
                              `rank_processes`) is started again when it dies
    messages                  what the two sides say to each other
    child/engine              models by id, and what each op does to them
    training/gradient         forward and forward_backward; `lora_batching`, of several models at once
    training/optimizer_step   optim_step
    child/policy_publishing   publish_policy
    child/checkpoint          save_state and load_state

`supervisor/` runs on the worker's event loop and never computes. `child/` is the program of the
training process: models, files, ranks. `launching/` starts several of them, on one machine or more.
`training/` is the training step itself.
"""
