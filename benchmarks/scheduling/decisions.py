"""Time of one decision with 1,000 queued jobs of 50 owners and 32 workers of 8 places, in a process whose garbage
collector is set as the gateway's."""

import random
import time
from dataclasses import replace

from warren_broker.worker.lifecycle import calm_garbage_collector
from warren_gateway.scheduling.decision import (
    HeldJob,
    OwnerShare,
    TrainerState,
    WaitingJob,
    decide,
)
from warren_schemas.ids import ModelId, RunId, WorkerId

N_WORKERS, N_MODELS, N_WAITING = 32, 8, 1000
BASES = ("Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B", "Qwen/Qwen3-8B")


def waiting(number: int, chance: random.Random) -> WaitingJob:
    return WaitingJob(
        model=ModelId(f"model_{number:05}"),
        run=RunId(f"run_{number:05}"),
        owner=f"user{chance.randrange(50)}",
        base_model=chance.choice(BASES),
        is_full=chance.random() < 0.1,
        n_gpus=1,
        memory_bytes=chance.choice((None, 4 << 30, 16 << 30)),
        priority=chance.choice((0, 0, 0, 1)),
        queued_s=float(number),
        number=number,
        is_interrupted=chance.random() < 0.01,
        blocked_by="no sampler offers it" if chance.random() < 0.05 else None,
    )


def held(job: WaitingJob, worker: WorkerId) -> HeldJob:
    return HeldJob(job.model, job.run, job.owner, job.base_model, False, 1, worker, job.queued_s)


def measure(n: int, seed: int) -> None:
    calm_garbage_collector()
    print("| workers | p50 CPU ms | p99 CPU ms | admitted |\n|---|---|---|---|")
    for name, n_free in (
        ("all taken", 0),
        ("one place free", 1),
        ("all empty", N_WORKERS * N_MODELS),
    ):
        taken_s, n_admitted = _times(n, n_free, random.Random(seed))
        p50, p99 = (1e3 * taken_s[int(q * len(taken_s))] for q in (0.5, 0.99))
        print(f"| {name} | {p50:.2f} | {p99:.2f} | {n_admitted} |")


def _times(n: int, n_free: int, chance: random.Random) -> tuple[list[float], int]:
    jobs = [waiting(number, chance) for number in range(N_WAITING)]
    holders, trainers = _workers(N_WORKERS * N_MODELS - n_free, chance)
    shares = {f"user{n}": OwnerShare(f"user{n}", 1.0, chance.uniform(0, 1e5)) for n in range(50)}
    taken_s: list[float] = []
    n_admitted = 0
    for _ in range(n):
        chance.shuffle(jobs)
        began_s = time.thread_time()
        n_admitted = len(decide(jobs, holders, trainers, shares, now_s=N_WAITING).admitted)
        taken_s.append(time.thread_time() - began_s)
    return sorted(taken_s), n_admitted


def _workers(n_held: int, chance: random.Random) -> tuple[list[HeldJob], list[TrainerState]]:
    holders: list[HeldJob] = []
    trainers: list[TrainerState] = []
    for number in range(N_WORKERS):
        worker, base = WorkerId(f"worker{number:02}"), BASES[number % len(BASES)]
        n_here = min(N_MODELS, n_held - len(holders))
        jobs = [waiting(10_000 + len(holders) + n, chance) for n in range(n_here)]
        ours = [held(replace(job, base_model=base), worker) for job in jobs]
        holders += ours
        models = tuple(job.model for job in ours)
        trainer = TrainerState(
            worker, frozenset({base}), frozenset(), 1, N_MODELS, models, False, False, 80 << 30
        )
        trainers.append(trainer)
    return holders, trainers
