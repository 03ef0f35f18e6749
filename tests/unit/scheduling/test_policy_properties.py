"""What holds for every decision."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.queueing import Site, trainer_state, waiting_job

from warren_gateway.scheduling.decision import OwnerShare, TrainerState, WaitingJob, decide
from warren_gateway.scheduling.decision.order import HELD_S
from warren_schemas.ids import WorkerId

OWNERS = ("ada", "bo", "cy")
BASES = ("tiny", "large")


@st.composite
def trainer_states(draw: st.DrawFn, may_load: bool = True) -> list[TrainerState]:
    n = draw(st.integers(1, 4))
    return [
        trainer_state(
            f"w{number}",
            base_models=draw(st.sets(st.sampled_from(BASES), min_size=1)),
            may_load=BASES if may_load and draw(st.booleans()) else (),
            n_gpus=draw(st.sampled_from((1, 2))),
            max_models=draw(st.integers(1, 3)),
            is_draining=draw(st.integers(0, 5)) == 0,
        )
        for number in range(n)
    ]


@st.composite
def jobs(draw: st.DrawFn) -> list[WaitingJob]:
    n = draw(st.integers(0, 14))
    return [
        waiting_job(
            number,
            draw(st.sampled_from(OWNERS)),
            base_model=draw(st.sampled_from(BASES)),
            is_full=draw(st.booleans()),
            n_gpus=draw(st.sampled_from((1, 1, 1, 2))),
            priority=draw(st.sampled_from((0, 0, 0, 1))),
            queued_s=float(number),
            is_interrupted=draw(st.integers(0, 6)) == 0,
            blocked_by="nobody samples" if draw(st.integers(0, 6)) == 0 else None,
        )
        for number in range(n)
    ]


@st.composite
def shares(draw: st.DrawFn) -> dict[str, OwnerShare]:
    return {
        owner: OwnerShare(
            owner,
            weight=draw(st.sampled_from((0.5, 1.0, 3.0))),
            used_gpu_s=draw(st.floats(0, 1e6)),
            most_held=draw(st.sampled_from((None, None, 1, 2))),
        )
        for owner in OWNERS
    }


def assert_within_room(site: Site) -> None:
    """No worker holds more than it may, and one that serves one base model alone leaves no message lying.
    (One of several may take another message than the one that was thought of.)"""
    untaken = [job for job in site.held.values() if job.worker is None]
    assert not untaken or any(len(room.base_models) > 1 for room in site.trainers)
    for room in site.states():
        held = [site.held[model] for model in room.held]
        assert len(held) <= room.max_models or len(held) == 1
        assert len(held) == 1 or not any(job.is_whole for job in held)
    for owner, n in Counter(job.owner for job in site.held.values()).items():
        most = site.owners[owner].most_held
        assert most is None or n <= most


def can_ever_start(job: WaitingJob, site: Site) -> bool:
    return job.blocked_by is None and any(
        not room.is_draining and room.n_gpus >= job.n_gpus and (job.base_model in room.base_models)
        for room in site.trainers
    )


@settings(deadline=None, max_examples=100)
@given(trainer_states(may_load=False), jobs(), shares(), st.randoms(use_true_random=False))
def test_never_more_than_room_and_nobody_starves(
    trainers: list[TrainerState],
    submitted: list[WaitingJob],
    owners: dict[str, OwnerShare],
    random: Random,
) -> None:
    site = Site(trainers, owners)
    site.submit(*submitted)
    n_releases = 0
    site.admit()
    while site.held:
        assert_within_room(site)
        taken = sorted(model for model, job in site.held.items() if job.worker is not None)
        site.release(random.choice(taken))
        n_releases += 1
        site.admit()
    assert n_releases == len(submitted) - len(site.waiting)
    assert not any(can_ever_start(job, site) for job in site.waiting.values())


@settings(deadline=None, max_examples=50)
@given(trainer_states(), jobs(), shares())
def test_places_are_a_permutation_and_the_input_order_is_nothing(
    trainers: list[TrainerState], submitted: list[WaitingJob], owners: dict[str, OwnerShare]
) -> None:
    decision = decide(submitted, [], trainers, owners, now_s=0.0)
    assert decide(submitted[::-1], [], trainers[::-1], owners, now_s=0.0) == decision
    assert set(decision.places).isdisjoint(decision.admitted)
    assert {job.model for job in submitted} == set(decision.places) | set(decision.admitted)
    numbers = sorted(place.number for place in decision.places.values())
    assert numbers == list(range(1, len(numbers) + 1))
    for job in submitted:
        if (place := decision.places.get(job.model)) is not None:
            assert place.n_ahead_own + place.n_ahead_others + 1 == place.number
            ours = [j for j in submitted if j.owner == job.owner and j.model in decision.places]
            ahead = [j for j in ours if decision.places[j.model].number < place.number]
            assert len(ahead) == place.n_ahead_own


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 4), st.integers(1, 4), shares(), st.randoms(use_true_random=False))
def test_jobs_of_one_kind_start_in_the_order_of_their_places(
    n_workers: int, n_slots: int, owners: dict[str, OwnerShare], random: Random
) -> None:
    """Where the use of what ended is counted: an owner whose job ends keeps its share."""
    site = Site([trainer_state(f"w{n}", max_models=n_slots) for n in range(n_workers)])
    site.owners = {name: OwnerShare(name, one.weight) for name, one in owners.items()}
    site.submit(*(waiting_job(n, random.choice(OWNERS)) for n in range(20)))
    decision = site.admit()
    while site.waiting:
        next_one = min(decision.places, key=lambda model: decision.places[model].number)
        ended = random.choice(sorted(site.held))
        owner = site.owners[site.jobs[ended].owner]
        used_gpu_s = owner.used_gpu_s + HELD_S / n_slots
        site.owners[owner.owner] = replace(owner, used_gpu_s=used_gpu_s)
        site.release(ended)
        decision = site.admit()
        assert decision.admitted == (next_one,)


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 4), st.integers(1, 3), st.randoms(use_true_random=False))
def test_a_full_job_starts_in_a_stream_of_small_ones(
    n_workers: int, n_slots: int, random: Random
) -> None:
    """At most as many releases as are held, on the worker that is kept."""
    site = Site([trainer_state(f"w{n}", max_models=n_slots) for n in range(n_workers)])
    site.submit(*(waiting_job(n) for n in range(n_workers * n_slots)))
    site.admit()
    full = waiting_job(100, is_full=True)
    site.submit(full)
    number = 101
    n_on_kept = 0
    while full.model in site.waiting:
        site.submit(waiting_job(number))
        number += 1
        decision = site.admit()
        if full.model in site.waiting:
            kept = next(
                worker for worker, model in decision.reserved.items() if model == full.model
            )
            released = random.choice(sorted(site.held))
            n_on_kept += site.held[released].worker == kept
            site.release(released)
    assert n_on_kept <= n_slots and len(site.waiting) > 0


@dataclass
class Count:
    used: Counter[str]

    def owners(self, weights: Mapping[str, float]) -> dict[str, OwnerShare]:
        return {
            name: OwnerShare(name, weight, float(self.used[name]))
            for name, weight in weights.items()
        }


@settings(deadline=None, max_examples=20)
@given(st.lists(st.sampled_from((1.0, 2.0, 4.0)), min_size=3, max_size=3), st.integers(2, 8))
def test_weighted_shares_converge(weights: list[float], n_slots: int) -> None:
    by_owner: dict[str, float] = dict(zip(OWNERS, weights, strict=True))
    site = Site([trainer_state("w0", max_models=n_slots)])
    count = Count(Counter())
    numbers = iter(range(9999))
    for _ in range(280):
        for owner in OWNERS:  # who always has more than could start at once
            n_waiting = sum(job.owner == owner for job in site.waiting.values())
            site.submit(*(waiting_job(next(numbers), owner) for _ in range(n_waiting, n_slots + 1)))
        site.owners = count.owners(by_owner)
        site.admit()
        oldest = min(site.held)
        for job in site.held.values():
            count.used[job.owner] += 3600 // n_slots
        site.release(oldest)
    shares_of = [count.used[name] / weight for name, weight in by_owner.items()]
    assert max(shares_of) <= 1.1 * min(shares_of)


def test_workers_are_told_by_their_ids() -> None:
    job = waiting_job(1, is_full=True)
    decision = decide([job], [], [trainer_state("b"), trainer_state("a")], {}, now_s=0.0)
    assert decision.reserved == {WorkerId("a"): job.model}
