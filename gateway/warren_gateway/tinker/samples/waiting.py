"""Why a sample can't be with a sampler yet.

Invariant: nobody is asked for it, so it says no more than is sure: how many answers of other gateways, and turns of
runs, wait in the same queue isn't known here.
"""

from collections.abc import Sequence

from warren_gateway.advice import Advice
from warren_gateway.coordinator.waiting import nobody_offers
from warren_schemas.control import Heartbeat, WorkerRole


def waits_for(
    base_model: str, n_ahead: int, samplers: Sequence[Heartbeat], advice: Advice
) -> str | None:
    """A sentence without its full stop; None where it may well be with one. `n_ahead` answers come before it."""
    offering = [one for one in samplers if base_model in one.offers]
    if not offering:
        return nobody_offers(advice, WorkerRole.SAMPLER, base_model, samplers)
    n_places = sum(one.capacity for one in offering)
    if n_ahead < n_places:
        return None
    return (
        f"at least {n_ahead} answers were asked for before it, and the samplers of {base_model} make"
        f" {n_places} at a time"
    )
