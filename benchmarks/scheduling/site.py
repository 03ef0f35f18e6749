"""Workers and a day of submissions, simulated: jobs with lengths that nobody is told, and workers that take
what is admitted as real ones do, the emptiest first."""

import heapq
import random
from dataclasses import dataclass, field, replace

from warren_gateway.scheduling.decision import HeldJob, OwnerShare, TrainerState, WaitingJob, decide
from warren_schemas.ids import ModelId, RunId, WorkerId

BASE = "base"
N_WORKERS, N_MODELS = 32, 8
N_USERS, N_JOBS, DAY_S = 50, 10_000, 86_400.0
LOAD = 1.0
"""GPU time that is asked for over GPU time that there is."""
PASS_S = 60.0
"""Jobs come and end all the time; a decision is made for all changes of so long."""
HALF_LIFE_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Submission:
    job: WaitingJob
    length_s: float

    @property
    def gpu_s(self) -> float:
        return self.length_s / (1 if self.job.is_full else N_MODELS)


def submissions(seed: int) -> list[Submission]:
    """Few users submit much (Zipf), 4 of 10 jobs come in bursts of one user's, lengths are log-normal (the
    longest of 10,000 some hundred times the median), every twentieth job is a full one."""
    chance = random.Random(seed)
    asking = [1.0 / (1 + user) for user in range(N_USERS)]
    raw: list[tuple[float, int, bool, float]] = []
    while len(raw) < N_JOBS:
        user = chance.choices(range(N_USERS), asking)[0]
        at_s, n = chance.uniform(0, DAY_S), 1
        if chance.random() < 0.02:
            n = chance.randint(20, 50)
        for _ in range(min(n, N_JOBS - len(raw))):
            is_full = chance.random() < 0.05
            raw.append((at_s, user, is_full, chance.lognormvariate(0.0, 1.3)))
    asked = sum(length / (1 if is_full else N_MODELS) for _, _, is_full, length in raw)
    unit_s = LOAD * N_WORKERS * DAY_S / asked
    return [_submission(n, *one, unit_s) for n, one in enumerate(sorted(raw))]


def _submission(
    number: int, at_s: float, user: int, is_full: bool, length: float, unit_s: float
) -> Submission:
    model, run = ModelId(f"m{number:05}"), RunId(f"r{number:05}")
    job = WaitingJob(
        model, run, f"user{user:02}", BASE, is_full, 1, None, 0, at_s, number, False, None
    )
    return Submission(job, length * unit_s)


@dataclass
class Worker:
    trainer: TrainerState
    jobs: set[ModelId] = field(default_factory=set[ModelId])
    has_full: bool = False

    def announced(self) -> TrainerState:
        return replace(self.trainer, held=tuple(self.jobs), is_full_held=self.has_full)


class Site:
    """`has_shares` False: all jobs are of one owner, so that FIFO is left."""

    def __init__(
        self, asked: list[Submission], weights: dict[str, float], has_shares: bool
    ) -> None:
        self.asked = {one.job.model: one for one in asked}
        self.weights, self._has_shares = weights, has_shares
        self.started_s: dict[ModelId, float] = {}
        self.used_gpu_s = dict.fromkeys(weights, 0.0)
        self.contended_s = dict.fromkeys(weights, 0.0)
        """How long a user had jobs waiting, and what GPU time it got meanwhile."""
        self.contended_gpu_s = dict.fromkeys(weights, 0.0)
        self.busy_gpu_s = 0.0
        self._recent = dict.fromkeys(weights, 0.0)
        self._waiting: dict[ModelId, WaitingJob] = {}
        self._held: dict[ModelId, HeldJob] = {}
        self._ends: list[tuple[float, ModelId]] = []
        self._workers = [Worker(_trainer(n)) for n in range(N_WORKERS)]

    def play(self) -> None:
        """A day, and then until all have started."""
        coming = list(self.asked.values())[::-1]
        now_s = 0.0
        while coming or self._waiting:
            while coming and coming[-1].job.queued_s <= now_s:
                job = coming.pop().job
                owner = job.owner if self._has_shares else "all"
                self._waiting[job.model] = replace(job, owner=owner)
            while self._ends and self._ends[0][0] <= now_s:
                self._end(heapq.heappop(self._ends)[1])
            self._pass(now_s)
            self._account(now_s)
            now_s += PASS_S

    def _pass(self, now_s: float) -> None:
        trainers = [worker.announced() for worker in self._workers]
        decision = decide(
            list(self._waiting.values()),
            list(self._held.values()),
            trainers,
            self._owners(),
            now_s=now_s,
        )
        for worker in self._workers:
            kept = decision.reserved.get(worker.trainer.worker)
            worker.trainer = replace(worker.trainer, reserved_for=kept)
        for model in decision.admitted:
            self._start(self._waiting.pop(model), now_s)

    def _owners(self) -> dict[str, OwnerShare]:
        return {o: OwnerShare(o, w, self._recent[o]) for o, w in self.weights.items()}

    def _start(self, job: WaitingJob, now_s: float) -> None:
        able = (worker for worker in self._workers if self._may_take(worker, job))
        worker = min(able, key=lambda w: (w.trainer.reserved_for != job.model, len(w.jobs)))
        worker.jobs.add(job.model)
        worker.has_full = job.is_full
        self._held[job.model] = HeldJob(
            job.model, job.run, job.owner, BASE, job.is_full, 1, worker.trainer.worker, now_s
        )
        self.started_s[job.model] = now_s
        heapq.heappush(self._ends, (now_s + self.asked[job.model].length_s, job.model))

    def _may_take(self, worker: Worker, job: WaitingJob) -> bool:
        is_for = worker.trainer.reserved_for in (None, job.model)
        n = len(worker.jobs)
        return is_for and not worker.has_full and n < (1 if job.is_full else N_MODELS)

    def _end(self, model: ModelId) -> None:
        job = self._held.pop(model)
        worker = next(w for w in self._workers if w.trainer.worker == job.worker)
        worker.jobs.discard(model)
        worker.has_full = False

    def _account(self, now_s: float) -> None:
        """Of the next `PASS_S`."""
        holding = dict.fromkeys(self.weights, 0.0)
        for model, job in self._held.items():
            holding[self.asked[model].job.owner] += 1.0 if job.is_full else 1 / N_MODELS
        wanting = {self.asked[model].job.owner for model in self._waiting}
        for user, n_gpus in holding.items():
            self.used_gpu_s[user] += n_gpus * PASS_S
            self._recent[user] = (
                self._recent[user] * 0.5 ** (PASS_S / HALF_LIFE_S) + n_gpus * PASS_S
            )
            if user in wanting and now_s < DAY_S:
                self.contended_s[user] += PASS_S
                self.contended_gpu_s[user] += n_gpus * PASS_S
        if now_s < DAY_S:
            self.busy_gpu_s += sum(holding.values()) * PASS_S


def _trainer(number: int) -> TrainerState:
    worker = WorkerId(f"w{number:02}")
    return TrainerState(worker, frozenset({BASE}), frozenset(), 1, N_MODELS, (), False, False, None)
