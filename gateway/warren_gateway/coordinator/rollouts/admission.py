"""Admission: how many groups may be in flight.

Staleness is bounded by pacing: a group is admitted only while

    groups admitted < (steps published + max_staleness + 1) * groups per step

(the capacity rule of AReaL, Fu et al. 2025, section 4.1, in optimizer steps). With a staleness of 0
a batch is sampled, consumed and published before the next one starts: on-policy. Dropped groups do
not count as admitted: they are replaced. Each is admitted while the run, the environment and the env workers have
room for its episodes.
"""

from collections import Counter

from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.runs.ownership import capacity_key, played_by
from warren_schemas.config import EnvironmentConfig

STEPS_SCORED = 2
"""Of so many steps are the groups that a replay has read and not consumed, where their episodes are scored anew: those of the
next step while it trains on one."""


def n_groups_wanted(
    *,
    n_admitted: int,
    n_steps_published: int,
    n_steps_total: int,
    groups_per_step: int,
    max_staleness: int,
) -> int:
    """Groups to admit now; never more than the steps that are left can consume."""
    ahead = (n_steps_published + max_staleness + 1) * groups_per_step
    return max(0, min(ahead, n_steps_total * groups_per_step) - n_admitted)


def has_capacity(state: CoordinatorState, environment: int, n_members: int) -> bool:
    """A group may always start where nothing is in flight, or nothing would ever move, and where nobody plays it."""
    if not state.uses_environments:
        return True
    own = state.config.environment_of(environment)
    in_flight = state.rollouts.groups.in_flight
    pairs = [
        (in_flight.total(), state.config.limits.in_flight),
        (in_flight.total(), state.observed.owner_share),
        (in_flight[environment], own.max_in_flight),
    ]
    return _has_place(state, in_flight, own) and all(
        limit is None or n_before == 0 or n_before + n_members <= limit for n_before, limit in pairs
    )


def _has_place(state: CoordinatorState, in_flight: Counter[int], of: EnvironmentConfig) -> bool:
    """Whether the run's share of this environment's places is not used up.

    A run may have several environments of one name, with settings of their own.
    """

    def where(environment: EnvironmentConfig) -> str:
        return capacity_key(environment.name, played_by(environment, state.owner))

    environment_of, share = state.config.environment_of, state.observed.shares.get(where(of))
    n = sum(n for i, n in in_flight.items() if where(environment_of(i)) == where(of))
    return share is None or n < max(share, 1)
