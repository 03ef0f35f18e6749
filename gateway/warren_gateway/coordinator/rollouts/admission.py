"""Admission: how many groups may be in flight.

Staleness is bounded by pacing: a group is admitted only while

    groups admitted < (steps published + max_staleness + 1) * groups per step

(the capacity rule of AReaL, Fu et al. 2025, section 4.1, in optimizer steps). With a staleness of 0
a batch is sampled, consumed and published before the next one starts: on-policy. Dropped groups do
not count as admitted: they are replaced.
"""


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
