"""The sampler: the policy's turns, from `Generate` to `Step`, token in and token out.

In the supervisor
    service              announces the worker, hears of new policies and ended runs
    turn_desk            one base model: claims in, successors out
    transcripts          what a finished turn makes of a transcript
    unwanted             ended runs and cancelled episodes, whose turns are dropped
    process              the child: requests in, answers out, started again when it dies
    slumber              the child sleeps while a trainer has the room
    frames               what travels between the two

In the child
    child                its main: one thread decodes, one reads, some fetch policies
    turns                from chat to tokens, through the engine, and back to words
    renderer             the chat template, applied to what is new
    policy_keeper        requests wait until their policy is loaded
    engine               the port that every engine implements
    engines              which of them samples here
    endings              what all of them decide alike
    vllm_engine          vLLM, stepped by hand
    vllm_start           can it run here, and with which arguments
    vllm_weights         full weights, replaced in place
    vllm_adapters        adapters, by names that never come twice
    adapter_files        where they lie
    weight_sets          full weights, which take turns
    base_shapes          weights are found sound before vLLM sees them
    transformers_engine  the plain one: continuous batching on one device
    admission            who may join the running batches
    rows                 rows that decode together, and their cache
    drawing              one token for each row
    policy_shelf         the weights of many policies on one base model
"""
