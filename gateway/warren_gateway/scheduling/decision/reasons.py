"""Why a job waits, in a sentence that names nobody else's."""

from warren_gateway.drained import every_one, undrain
from warren_gateway.loadable import LOADED_LATER, cannot_load, loading
from warren_gateway.scheduling.decision.inputs import WaitingJob
from warren_gateway.scheduling.decision.order import Use
from warren_gateway.scheduling.decision.workers import Worker, Workers

GIB = 1 << 30

_NOBODY = "no GPU worker that is online trains {}"
_OTHERS = "; those that are online train {}"
_TOO_LARGE = "it needs {} GPUs, and no GPU worker that trains {} has more than {}"
_QUOTA = "its owner holds {} of {} jobs at a time, which is the quota; it starts after one of them"
_KEPT = "a GPU worker is kept for it and finishes {} first"
_WHOLE = "it needs a GPU worker to itself, and none of the {} that train {} is empty"
_MEMORY = "it needs about {:.1f} GiB, and no GPU worker that trains {} has so much free"
_TAKEN = "all {} places for models of {} are taken"
_FOR_LARGE = (
    "the free places for models of {} are on GPU workers kept for jobs that need a whole one"
)


def impossible(job: WaitingJob, workers: Workers) -> str | None:
    """Why no end of another job would help."""
    base = job.base_model
    if workers.trains(job):
        return None
    if (loader := workers.loading(job)) is not None:
        return loading(base, loader)
    if workers.may_load(job):
        return None
    if (drained := workers.drained_for(job)) is not None:
        return f"{every_one('trainer', base, job.n_gpus)}; {undrain(drained)}"
    return _nobody(job, workers)


def _nobody(job: WaitingJob, workers: Workers) -> str:
    base = job.base_model
    ours = [*workers.of_base.get(base, []), *workers.loaders(base)]
    if ours:
        largest = max(worker.state.n_gpus for worker in ours)
        return _TOO_LARGE.format(job.n_gpus, base, largest)
    states = (worker.state for worker in workers.active)
    if (state := next((s for s in states if base in s.cannot_load), None)) is not None:
        return cannot_load(base, state.worker, state.cannot_load[base])
    others = ", ".join(sorted(workers.of_base))
    return _NOBODY.format(base) + (_OTHERS.format(others) if others else "")


def quota(use: Use) -> str:
    return _QUOTA.format(use.n_held, use.most_held)


def kept(worker: Worker) -> str:
    n = worker.n_held
    return _KEPT.format("1 other job" if n == 1 else f"{n} other jobs")


def no_room(job: WaitingJob, workers: Workers) -> str:
    """Of a job that would fit if others ended."""
    base = job.base_model
    if not workers.trains(job):
        told = next((one.state.worker for one in workers.active if one.loads == base), None)
        return LOADED_LATER.format(base) if told is None else loading(base, told)
    ours = [worker for worker in workers.of_base[base] if worker.state.n_gpus >= job.n_gpus]
    free = [w for w in ours if (w.is_empty if job.is_whole else w.has_free_slot())]
    if not free:
        n_slots = sum(worker.state.max_models for worker in ours)
        return _WHOLE.format(len(ours), base) if job.is_whole else _TAKEN.format(n_slots, base)
    if job.memory_bytes is not None and not any(worker.fits(job) for worker in free):
        return _MEMORY.format(job.memory_bytes / GIB, base)
    return _FOR_LARGE.format(base)
