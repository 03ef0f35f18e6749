"""The scheduler's decision, case by case."""

from collections.abc import Sequence

from tests.support.queueing import BASE, Site, held_job, trainer_state, waiting_job

from warren_gateway.scheduling.decision import (
    Decision,
    HeldJob,
    OwnerShare,
    TrainerState,
    WaitingJob,
)
from warren_gateway.scheduling.decision import decide as decide_at
from warren_gateway.scheduling.decision.reserving import RESERVES_AFTER_S
from warren_schemas.ids import WorkerId

W1, W2 = WorkerId("w1"), WorkerId("w2")


def decide(
    waiting: Sequence[WaitingJob],
    trainers: Sequence[TrainerState],
    *owners: OwnerShare,
    held: Sequence[HeldJob] = (),
    now_s: float = 0.0,
) -> Decision:
    by_name = {owner.owner: owner for owner in owners}
    return decide_at(waiting, held, trainers, by_name, now_s=now_s)


def numbers(decision: Decision) -> list[int]:
    return [int(model.removeprefix("model_")) for model in decision.admitted]


def order(decision: Decision) -> list[int]:
    places = sorted(decision.places.items(), key=lambda item: item[1].number)
    return [int(model.removeprefix("model_")) for model, _ in places]


def reason(decision: Decision, job: WaitingJob) -> str:
    return decision.places[job.model].reason


def test_in_order_of_submission() -> None:
    jobs = [waiting_job(number) for number in (3, 1, 2, 4)]
    decision = decide(jobs, [trainer_state(max_models=3)])
    assert numbers(decision) == [1, 2, 3] and order(decision) == [4]
    place = decision.places[jobs[3].model]
    assert (place.number, place.n_ahead_own, place.n_ahead_others) == (1, 0, 0)
    assert place.reason == "all 3 places for models of tiny are taken"


def test_interrupted_before_priority_before_shares() -> None:
    jobs = [
        waiting_job(1, "bo"),
        waiting_job(2, "ada"),
        waiting_job(3, "bo", priority=5),
        waiting_job(4, "bo", is_interrupted=True),
    ]
    decision = decide(jobs, [trainer_state(max_models=4)], OwnerShare("bo", used_gpu_s=1e6))
    assert numbers(decision) == [4, 3, 2, 1]


def test_owners_take_turns() -> None:
    jobs = [waiting_job(n, "ada") for n in range(1, 5)] + [waiting_job(n, "bo") for n in (5, 6)]
    assert numbers(decide(jobs, [trainer_state(max_models=6)])) == [1, 5, 2, 6, 3, 4]


def test_a_weight_of_two_is_two_turns() -> None:
    jobs = [waiting_job(n, "ada") for n in range(1, 7)] + [waiting_job(n, "bo") for n in (7, 8, 9)]
    decision = decide(jobs, [trainer_state(max_models=6)], OwnerShare("ada", weight=2.0))
    assert sorted(numbers(decision)) == [1, 2, 3, 4, 7, 8]


def test_what_is_held_counts() -> None:
    held = [waiting_job(1, "ada"), waiting_job(2, "ada")]
    jobs = [waiting_job(3, "ada"), waiting_job(4, "bo"), waiting_job(5, "bo")]
    room = trainer_state(max_models=4, held=held)
    decision = decide(jobs, [room], held=[held_job(job, "w1") for job in held])
    assert numbers(decision) == [4, 5] and order(decision) == [3]


def test_a_quota_holds_up_nobody_else() -> None:
    jobs = [waiting_job(1), waiting_job(2), waiting_job(3, "bo")]
    decision = decide(jobs, [trainer_state(max_models=4)], OwnerShare("ada", most_held=1))
    assert numbers(decision) == [1, 3]
    assert reason(decision, jobs[1]).startswith("its owner holds 1 of 1 jobs at a time")


def test_a_blocked_job_holds_up_nobody_and_costs_its_owner_nothing() -> None:
    blocked = waiting_job(1, is_full=True, blocked_by="no sampler offers tiny")
    jobs = [blocked, waiting_job(2), waiting_job(3, "bo"), waiting_job(4, "bo")]
    decision = decide(jobs, [trainer_state(max_models=2)])
    assert numbers(decision) == [2, 3] and order(decision) == [4, 1]
    assert reason(decision, blocked) == "no sampler offers tiny"
    assert not decision.reserved


def test_admitted_jobs_that_nobody_took_yet_take_room() -> None:
    held = [held_job(waiting_job(1), None), held_job(waiting_job(2), None)]
    assert numbers(
        decide([waiting_job(3), waiting_job(4)], [trainer_state(max_models=3)], held=held)
    ) == [3]


def test_what_a_worker_says_that_it_holds_counts_once() -> None:
    job = waiting_job(1)
    room = trainer_state(max_models=2, held=[job])
    assert numbers(
        decide([waiting_job(2), waiting_job(3)], [room], held=[held_job(job, None)])
    ) == [2]
    assert numbers(
        decide([waiting_job(2), waiting_job(3)], [room], held=[held_job(job, "w1")])
    ) == [2]


def test_a_full_job_takes_an_empty_worker_and_keeps_small_ones_from_it() -> None:
    full = waiting_job(2, is_full=True)
    jobs = [waiting_job(1), full, waiting_job(3), waiting_job(4)]
    decision = decide(jobs, [trainer_state("w1"), trainer_state("w2")])
    assert numbers(decision) == [1, 2, 3]
    assert decision.reserved == {W2: full.model}
    again = decide([waiting_job(4)], [trainer_state("w2")], held=[held_job(full, None)])
    assert again.reserved == {W2: full.model} and not again.admitted


def test_a_full_job_reserves_the_worker_with_the_fewest_jobs() -> None:
    small = [waiting_job(n) for n in range(1, 4)]
    full, later = waiting_job(4, is_full=True), [waiting_job(n) for n in (5, 6)]
    rooms = [trainer_state("w1", held=small[:2], max_models=3), trainer_state("w2", held=small[2:])]
    held = [held_job(s, "w1") for s in small[:2]] + [held_job(small[2], "w2")]
    decision = decide([full, *later], rooms, held=held)
    assert decision.reserved == {W2: full.model}
    assert numbers(decision) == [5] and order(decision) == [4, 6]
    assert reason(decision, full) == "a GPU worker is kept for it and finishes 1 other job first"
    assert reason(decision, later[1]) == (
        "the free places for models of tiny are on GPU workers kept for jobs that need a whole one"
    )


def test_a_full_job_with_many_small_ones_ahead_reserves_after_a_time() -> None:
    held = [waiting_job(1), waiting_job(2)]
    ahead, full = [waiting_job(n) for n in (3, 4)], waiting_job(5, is_full=True)
    rooms = [trainer_state(held=held)]
    ours = [held_job(job, "w1") for job in held]
    assert not decide([*ahead, full], rooms, held=ours).reserved
    late = decide([*ahead, full], rooms, held=ours, now_s=RESERVES_AFTER_S)
    assert late.reserved == {W1: full.model}


def test_a_reservation_stays_against_newer_small_jobs_and_yields_to_priority() -> None:
    held, full = waiting_job(1), waiting_job(2, is_full=True)
    room = trainer_state(held=[held], max_models=4, reserved_for=full)
    cheaper, urgent = waiting_job(3, "bo"), waiting_job(4, priority=1)
    owner = OwnerShare("ada", used_gpu_s=1e6)
    ours = [held_job(held, "w1")]
    assert decide([full, cheaper], [room], owner, held=ours).reserved == {W1: full.model}
    assert numbers(decide([full, cheaper], [room], owner, held=ours)) == []
    assert numbers(decide([full, cheaper, urgent], [room], owner, held=ours)) == [4]


def test_at_most_a_quarter_of_the_workers_is_emptied_at_a_time() -> None:
    held = [waiting_job(n) for n in range(1, 5)]
    rooms = [trainer_state(f"w{job.number}", held=[job]) for job in held]
    full = [waiting_job(n, is_full=True) for n in range(5, 9)]
    ours = [held_job(job, f"w{job.number}") for job in held]
    decision = decide([*full, waiting_job(9), waiting_job(10), waiting_job(11)], rooms, held=ours)
    assert decision.reserved == {W1: full[0].model}
    assert numbers(decision) == [9, 10, 11]


def test_several_gpus_need_a_worker_that_has_them() -> None:
    job = waiting_job(1, n_gpus=4)
    small, large = trainer_state("w1", n_gpus=1), trainer_state("w2", n_gpus=4)
    assert decide([job], [small, large]).reserved == {W2: job.model}
    assert reason(decide([job], [small]), job) == (
        "it needs 4 GPUs, and no GPU worker that trains tiny has more than 1"
    )
    away = trainer_state("w2", n_gpus=4, is_draining=True)
    assert reason(decide([job], [small, away]), job).startswith(
        "every trainer of tiny with 4 GPUs is drained; an admin has one take work again with:"
    )


def test_memory() -> None:
    job, less = waiting_job(1, memory_bytes=3 << 30), waiting_job(2, memory_bytes=1 << 30)
    decision = decide(
        [job, less, waiting_job(3, memory_bytes=1 << 30)],
        [trainer_state(free_memory_bytes=2 << 30, max_models=9)],
    )
    assert numbers(decision) == [2, 3]
    assert "3.0 GiB" in reason(decide([job], [trainer_state(free_memory_bytes=2 << 30)]), job)


def test_a_draining_worker_takes_nothing() -> None:
    job = waiting_job(1)
    decision = decide([job], [trainer_state(is_draining=True)])
    assert not decision.admitted
    assert reason(decision, job) == (
        "every trainer of tiny is drained; an admin has one take work again with:"
        " warren workers undrain w1"
    )
    other = decide([waiting_job(1, base_model="large")], [trainer_state(is_draining=True)])
    assert other.places[job.model].reason == "no GPU worker that is online trains large"


def test_a_base_model_that_nobody_has_is_loaded_by_an_idle_worker() -> None:
    job = waiting_job(1, base_model="large")
    busy = waiting_job(9)
    rooms = [
        trainer_state("w0"),
        trainer_state("w1", may_load=("large",), held=[busy]),
        trainer_state("w2", may_load=("large",)),
    ]
    decision = decide([job, waiting_job(2, base_model="large")], rooms, held=[held_job(busy, "w1")])
    assert decision.load == {W2: "large"} and not decision.admitted
    assert reason(decision, job) == "loading large on w2"
    nobody = decide([job], rooms[:1])
    assert reason(nobody, job) == (
        f"no GPU worker that is online trains large; those that are online train {BASE}"
    )


def test_what_is_being_loaded_is_waited_for_and_loaded_by_nobody_else() -> None:
    job = waiting_job(1, base_model="large")
    coming = trainer_state("w1", base_models=(), loading=("large",))
    decision = decide([job], [coming, trainer_state("w2", may_load=("large",))])
    assert not decision.load and not decision.admitted
    assert reason(decision, job) == "loading large on w1"


def test_what_is_held_with_too_few_gpus_is_loaded_by_a_worker_that_has_them() -> None:
    job = waiting_job(1, n_gpus=2)
    small = trainer_state("w1", held=[waiting_job(9)])
    pair = trainer_state("w2", base_models=("large",), may_load=(BASE,), n_gpus=2)
    decision = decide([job], [small, pair])
    assert decision.load == {W2: BASE} and not decision.admitted
    assert reason(decision, job) == "loading tiny on w2"
    single = trainer_state("w2", base_models=("large",), may_load=(BASE,))
    too_large = "it needs 2 GPUs, and no GPU worker that trains tiny has more than 1"
    assert reason(decide([job], [small, single]), job) == too_large
    loading = trainer_state("w3", base_models=(), loading=(BASE,), n_gpus=2)
    assert reason(decide([job], [small, pair, loading]), job) == "loading tiny on w3"
    occupied = trainer_state(
        "w2",
        base_models=("large",),
        may_load=(BASE,),
        n_gpus=2,
        max_models=1,
        held=[waiting_job(8)],
    )
    assert decide([job], [small, occupied]).reserved == {W2: job.model}


def test_a_worker_that_samples_for_others_loads_nothing_else() -> None:
    job = waiting_job(1, base_model="large")
    missed = trainer_state("w1", may_load=("large",), is_missed=True)
    decision = decide([job], [missed])
    assert not decision.load and not decision.reserved
    assert reason(decision, job) == (
        "no GPU worker has large loaded, and those that may load it are at work"
    )
    assert decide([job], [missed, trainer_state("w2", may_load=("large",))]).load == {W2: "large"}


def test_a_worker_that_may_load_is_emptied_for_a_base_model_that_nobody_has() -> None:
    site = Site([trainer_state(may_load=("large",))])
    site.submit(*(waiting_job(n) for n in (1, 2)))
    site.admit()
    wanted = waiting_job(3, "bo", base_model="large")
    site.submit(wanted, *(waiting_job(n) for n in (4, 5, 6)))
    while wanted.model in site.waiting:
        site.admit()
        taken = [job.model for job in site.held.values() if job.worker is not None]
        if wanted.model in site.waiting and taken:
            site.release(taken[0])
    assert site.held[wanted.model].worker == W1 and len(site.waiting) == 3


def test_a_worker_that_is_told_to_load_takes_nothing_else() -> None:
    jobs = [waiting_job(1, base_model="large"), waiting_job(2)]
    decision = decide(jobs, [trainer_state(may_load=("large",))])
    assert decision.load == {W1: "large"} and not decision.admitted


def test_reasons_name_nobody() -> None:
    jobs = [waiting_job(n, "ada" if n % 2 else "bo", is_full=n % 5 == 0) for n in range(1, 40)]
    decision = decide(jobs, [trainer_state("w1"), trainer_state("w2")])
    told = {place.reason for place in decision.places.values()}
    assert told and not any(
        word in one for one in told for word in ("model_", "run_", "ada", "bo ")
    )


def test_a_worker_is_not_closed_before_small_jobs_that_were_admitted_to_it_are_in() -> None:
    first, full = waiting_job(1), waiting_job(2, is_full=True)
    room = trainer_state(max_models=3)
    decision = decide([first, full, waiting_job(3)], [room])
    assert numbers(decision) == [1] and not decision.reserved
    untaken = decide([full, waiting_job(3)], [room], held=[held_job(first, None)])
    assert not untaken.admitted and not untaken.reserved
    taken = trainer_state(max_models=3, held=[first])
    decision = decide([full, waiting_job(3)], [taken], held=[held_job(first, "w1")])
    assert decision.reserved == {W1: full.model} and not decision.admitted
