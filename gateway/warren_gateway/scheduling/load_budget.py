"""What GPU workers load in an hour for one owner's evaluations.

An evaluation needs no trainer, so no place in the queue, no share and no quota of runs at work holds it back, and
one of a single episode costs its owner next to nothing: without a budget a handful of them could have workers load
one base model after another.

Invariants
- A load counts when a worker is told to load what none was told to before, for the owner whose evaluation was first to
  want it. What a job that trains wants as well counts for nobody.
- What was told is carried through, also where the budget is used up since.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from warren_gateway.scheduling.job_records import JobRecord
from warren_gateway.store.tables import SchedulerRow
from warren_gateway.usage.evaluated import loaded_lately
from warren_gateway.usage.limits import InForce


def within_budget(
    jobs: Sequence[JobRecord], row: SchedulerRow, most: Mapping[str, InForce], now_s: float
) -> list[JobRecord]:
    """Those evaluations whose base models may be loaded now, in their order."""
    told = _told(row)
    wanted: dict[str, set[str]] = defaultdict(set)
    kept: list[JobRecord] = []
    for job in jobs:
        n_most = most[job.owner].evaluated_models_per_hour
        more = wanted[job.owner] | {job.base_model}
        if job.base_model in told:
            kept.append(job)
        elif len(loaded_lately(row, job.owner, now_s)) + len(more) <= n_most:
            wanted[job.owner] = more
            kept.append(job)
    return kept


def charge(
    row: SchedulerRow,
    loads: Iterable[str],
    evaluations: Sequence[JobRecord],
    queued: Sequence[JobRecord],
    now_s: float,
) -> None:
    """Count what is to be loaded from now on; called before it is noted in the row."""
    new = set(loads) - _told(row) - {job.base_model for job in queued}
    first = {job.base_model: job.owner for job in reversed(evaluations) if job.base_model in new}
    if not first:
        return
    lately = {
        owner: loaded_lately(row, owner, now_s) for owner in {*row.evaluated, *first.values()}
    }
    for owner in first.values():
        lately[owner].append(now_s)
    row.evaluated = {owner: times for owner, times in lately.items() if times}


def _told(row: SchedulerRow) -> set[str]:
    return {base for base, *_ in row.loading.values()}
