"""The options by which several machines find each other: what they mean, and what can't work.

Invariant: importing this module is quick, for settings ask it.
"""

import re

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\s]+):[0-9]{1,5}")


def parse_rendezvous(rendezvous: str) -> tuple[str, int]:
    """Host and port."""
    host, _, port = rendezvous.rpartition(":")
    return host.strip("[]"), int(port)


def why_not_meet(n_machines: int, rendezvous: str | None, *, loads_others: bool) -> str | None:
    """What is wrong with these options, whatever the machines do together."""
    if n_machines == 1:
        if rendezvous is None:
            return None
        return "rendezvous is for a model on several machines; say how many by machines"
    if loads_others:
        return "may_load is for a worker on one machine: others would not hear what is loaded"
    if _ADDRESS.fullmatch(rendezvous or "") is None:
        return (
            f"{n_machines} machines meet at rendezvous, which is HOST:PORT, for example"
            f" 10.0.0.1:29400, and this is {rendezvous or 'missing'}"
        )
    return None


def why_not_spread(
    n_machines: int, *, n_gpus: int, n_samplers: int, n_base_models: int, engine: str
) -> str | None:
    """Why vLLM can't be spread over so many machines with these options."""
    if n_machines == 1:
        return None
    if engine == "transformers":
        return f"{n_machines} machines sample by vLLM, and engine is transformers; take vllm"
    if n_gpus % n_machines:
        return (
            f"vLLM has {n_gpus} GPUs (tensor_parallel times pipeline_parallel), and {n_machines} machines can't have an equal"
            f" part of them; take a multiple of {n_machines}"
        )
    if n_samplers > 1:
        return (
            f"vllm.data_parallel makes {n_samplers} samplers, and machines spreads one; start a worker for each, with"
            " a rendezvous of its own"
        )
    if n_base_models > 1:
        return (
            f"{n_machines} machines sample from one base model, and here are {n_base_models}; start a worker for each,"
            " with a rendezvous of its own"
        )
    return None
