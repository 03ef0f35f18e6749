"""A request that vLLM runs."""

from dataclasses import dataclass

from warren_gpu_worker.sampler.engines.port import PolicyKey, Request


@dataclass(slots=True, eq=False)
class RunningRequest:
    """What vLLM runs for a request; it tells only the request's id with each token."""

    request: Request
    has_adapter: bool
    weights: PolicyKey | None
    """The set of full weights that it runs on; follows when that set's place is taken."""
    base_version: int
    """Its version while it runs on the base model's own weights."""
