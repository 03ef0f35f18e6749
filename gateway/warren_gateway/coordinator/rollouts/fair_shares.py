"""Fair shares: how many episodes of an environment, and of all together, a run may have in flight.

The live env workers have a capacity for an environment (an owner's own ones have theirs, for his runs
alone), and each run that plays it wants at most as many episodes in flight as its config allows. The
capacity is shared evenly; what a run doesn't want goes to the others (max-min fairness, Bertsekas and
Gallager, Data Networks, section 6.5.2). A run alone has all of it. What the owner may have
in flight is shared among their runs in the same way.

Invariant: no run sends more episodes than its share, plus one group; so nobody's episodes wait
behind thousands of another run's, however many that one asked for. And no message fills more than a
fraction of a worker, for what waits in the hands of a full worker can't be taken by one with capacity; nor
does it hold more than a fraction of what each worker would have of the run, or some would have none.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlmodel import Session, col, select

from warren_gateway.coordinator.rollouts.admission import STEPS_SCORED
from warren_gateway.coordinator.run_leases import FINAL
from warren_gateway.registry import Registry
from warren_gateway.runs.newer_versions import readable_config
from warren_gateway.runs.ownership import capacity_key, played_by
from warren_gateway.store.tables import Run
from warren_gateway.usage.limits import InForce, OwnerLimits
from warren_schemas.config import LiveSource, RecordedSource, TrainConfig
from warren_schemas.control import WorkerRole
from warren_schemas.ids import RunId

CAPACITY_IF_UNKNOWN = 64
"""Counted while no env worker offers an environment; what was sent by then waits for the first one."""

MESSAGES_TO_FILL = 8
"""Messages of new episodes that the smallest of an environment's workers takes at the least."""

MESSAGES_TO_EACH = 2
"""Messages of new episodes for every worker, at the least, when a run fills what it may have."""

Wants = Mapping[str, int]
"""Most episodes in flight, by `ownership.capacity_key`."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen in the store."""

    wants: Mapping[RunId, Wants] = field(default_factory=dict[RunId, Wants])
    owners: Mapping[RunId, str] = field(default_factory=dict[RunId, str])
    limits: Mapping[str, InForce] = field(default_factory=dict[str, InForce])
    """By owner."""
    numbers: Mapping[RunId, int] = field(default_factory=dict[RunId, int])
    """Of the runs' limits by which they want what they want."""


class Shares:
    """What the runs of all gateways want, and what the workers have."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.seen = Seen()

    def of(self, run: RunId) -> dict[str, int]:
        """Episodes that this run may have in flight, by `ownership.capacity_key`."""
        return {name: self._share(name) for name in self.seen.wants.get(run, ())}

    def of_owner(self, run: RunId) -> int | None:
        """Episodes that this run may have in flight of those that its owner may; None for one that is not
        known here yet."""
        seen = self.seen
        if (owner := seen.owners.get(run)) is None:
            return None
        wants = [sum(want.values()) for r, want in seen.wants.items() if seen.owners[r] == owner]
        return even_share(seen.limits[owner].episodes_in_flight, wants)

    def message_sizes_of(self, run: RunId) -> dict[str, int]:
        """Most new episodes in one message of this run, by `ownership.capacity_key`."""
        return {
            name: self._message_size(name, want)
            for name, want in self.seen.wants.get(run, {}).items()
        }

    def _message_size(self, at: str, want: int) -> int:
        capacities = self._capacities(at)
        of_each = min(want, self._share(at)) // len(capacities)
        return max(1, min(min(capacities) // MESSAGES_TO_FILL, of_each // MESSAGES_TO_EACH))

    def _share(self, at: str) -> int:
        wants = [own[at] for own in self.seen.wants.values() if at in own]
        return even_share(sum(self._capacities(at)), wants)

    def _capacities(self, at: str) -> list[int]:
        """Of each live worker that has any."""
        capacities = (
            worker.capacity // len(worker.offers)
            for worker in self._registry.alive(WorkerRole.ENVIRONMENT)
            if any(capacity_key(environment, worker.owner) == at for environment in worker.offers)
        )
        return [n for n in capacities if n] or [CAPACITY_IF_UNKNOWN]


def even_share(capacity: int, wants: Iterable[int]) -> int:
    """What each may have at most so that all together fit; `capacity` if all wants do."""
    n_left, ascending = capacity, sorted(wants)
    for i, want in enumerate(ascending):
        share = n_left // (len(ascending) - i)
        if want > share:
            return share
        n_left -= want
    return capacity


def look(session: Session, known: Seen, limits: OwnerLimits) -> Seen:
    """What the runs want that go on and don't wait for a worker; of a config only the limits change.

    Of a run that only a newer gateway can read we can't tell.
    """
    is_moving = col(Run.state).not_in(FINAL), col(Run.waiting_for).is_(None)
    moving = session.exec(select(Run.id, Run.owner, Run.limits_number).where(*is_moving)).all()
    owners = {RunId(run): owner for run, owner, _ in moving}
    numbers = {RunId(run): number for run, _, number in moving}
    fresh = [run for run, number in numbers.items() if known.numbers.get(run) != number]
    read = session.exec(select(Run).where(col(Run.id).in_(fresh)))
    new = {RunId(run.id): _wanted_by(run) for run in read}
    wants = {run: new[run] if run in new else known.wants[run] for run in owners}
    return Seen(wants, owners, limits.of_all(session, set(owners.values())), numbers)


def _wanted_by(run: Run) -> Wants:
    config = readable_config(run)
    return {} if config is None else wanted(config, run.owner)


def wanted(config: TrainConfig, owner: str) -> Wants:
    """Most episodes that the run may have in flight by its own config."""
    if (n_steps := _steps_in_flight(config)) == 0:
        return {}
    algorithm = config.algorithm
    n_groups = n_steps * algorithm.groups_per_step
    wants = Counter[str]()
    for environment in config.environments:
        wants[capacity_key(environment.name, played_by(environment, owner))] += min(
            n_groups * (environment.group_size or algorithm.group_size),
            config.limits.in_flight,
            environment.max_in_flight or config.limits.in_flight,
        )
    return wants


def _steps_in_flight(config: TrainConfig) -> int:
    """Of how many steps the groups are in flight at most."""
    source = config.source
    if isinstance(source, LiveSource):
        return config.algorithm.max_staleness + 1
    is_scored = isinstance(source, RecordedSource) and source.is_scored
    return STEPS_SCORED if is_scored else 0
