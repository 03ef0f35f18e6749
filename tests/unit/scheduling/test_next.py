"""Which jobs count as next: those that get ready because they are admitted soon."""

from collections.abc import Iterable

from tests.support.queueing import held_job, trainer_state, waiting_job

from warren_gateway.scheduling.decision import OwnerShare, TrainerState, WaitingJob, decide
from warren_gateway.scheduling.decision.decide import N_NEXT

HELD = waiting_job(0)
FULL_UP = trainer_state(max_models=1, held=[HELD])


def next_of(
    jobs: Iterable[WaitingJob], *trainers: TrainerState, quota: int | None = None
) -> list[int]:
    owners = {"ada": OwnerShare("ada", most_held=quota)}
    decision = decide(list(jobs), [held_job(HELD, "w1")], trainers, owners, now_s=0.0)
    return [int(model.removeprefix("model_")) for model in decision.next]


def test_the_first_few_in_the_order_of_the_queue_are_next() -> None:
    jobs = [waiting_job(n) for n in range(1, 2 * N_NEXT)]
    assert next_of(jobs, FULL_UP) == [job.number for job in jobs[:N_NEXT]]


def test_each_kind_and_base_model_has_its_own() -> None:
    full = [waiting_job(n, is_full=True) for n in range(1, 1 + N_NEXT)]
    small = [waiting_job(n) for n in range(11, 13)]
    other = waiting_job(21, base_model="other")
    trainers = FULL_UP, trainer_state("w2", base_models=["other"], max_models=1, held=[HELD])
    assert next_of([*full, *small, other], *trainers) == [1, 2, 3, 4, 11, 12, 21]


def test_what_could_not_start_whoever_made_room_is_not_next() -> None:
    blocked, nobodys = waiting_job(1, blocked_by="no env worker"), waiting_job(2, base_model="none")
    assert next_of([blocked, nobodys, waiting_job(3)], FULL_UP) == [3]
    assert next_of([waiting_job(4)], FULL_UP, quota=1) == []


def test_what_a_worker_loads_a_base_model_for_is_next() -> None:
    jobs = [waiting_job(n, base_model="large") for n in range(1, 2 * N_NEXT)]
    loading = trainer_state("w2", base_models=(), loading=("large",))
    assert next_of(jobs, FULL_UP, loading) == [job.number for job in jobs[:N_NEXT]]
    assert next_of([waiting_job(1, base_model="large", blocked_by="no env worker")], loading) == []
