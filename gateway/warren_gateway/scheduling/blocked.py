"""What a job misses besides a trainer, so that it could not move with one."""

from collections.abc import Sequence

from warren_gateway.advice import Advice
from warren_gateway.coordinator.lease.trainer_lease import able_trainers
from warren_gateway.coordinator.waiting import missing_environment, nobody_offers, nobody_trains
from warren_gateway.loadable import coming
from warren_gateway.scheduling.job_records import JobRecord
from warren_schemas.config import EnvironmentConfig
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.ids import ModelId

HELD_BACK = "its run has nothing to train before its environments are there again"


class Blockers:
    """Reasons by what is needed: a thousand jobs need a handful of things."""

    def __init__(self, workers: Sequence[Heartbeat], advice: Advice) -> None:
        self._advice = advice
        self._of_role = {role: [w for w in workers if w.role is role] for role in WorkerRole}
        self._known: dict[tuple[str, ...], str | None] = {}
        self._reasons: dict[ModelId, str | None] = {}

    def reason(self, job: JobRecord) -> str | None:
        """A sentence without its full stop; None for a job that can move."""
        if job.model_id not in self._reasons:
            self._reasons[job.model_id] = self._find_reason(job)
        return self._reasons[job.model_id]

    def _find_reason(self, job: JobRecord) -> str | None:
        if job.is_held_back:
            return HELD_BACK
        if not job.plays_at_once or job.is_interrupted:
            return None
        reasons = (self._no_sampler(job.base_model, job.n_gpus), *self._no_environments(job))
        return next((reason for reason in reasons if reason is not None), None)

    def missing(self, job: JobRecord, reason: str) -> str | None:
        """Also when it is a trainer. `reason` is the decision's, which knows what is being loaded."""
        large = [t for t in self._of_role[WorkerRole.TRAINER] if t.n_devices >= job.n_gpus]
        is_told = self._is_told(job.base_model, job.n_gpus)
        if is_told and coming(job.base_model, large, is_told=True) is not None:
            return reason
        return self._no_trainer(job.base_model, job.n_gpus) or self.reason(job)

    def _no_trainer(self, base_model: str, n_gpus: int) -> str | None:
        key = ("trainer", base_model, str(n_gpus))
        if key not in self._known:
            trainers = self._of_role[WorkerRole.TRAINER]
            self._known[key] = nobody_trains(self._advice, base_model, n_gpus, trainers)
        return self._known[key]

    def _no_sampler(self, base_model: str, n_gpus: int) -> str | None:
        key = ("sampler", base_model, str(n_gpus))
        if key not in self._known:
            samplers = self._of_role[WorkerRole.SAMPLER]
            is_there = any(base_model in one.offers for one in samplers)
            is_told = self._is_told(base_model, n_gpus)
            is_there |= is_told and any(one.loads_if_told(base_model) for one in samplers)
            reason = nobody_offers(self._advice, WorkerRole.SAMPLER, base_model, samplers)
            self._known[key] = None if is_there else reason
        return self._known[key]

    def _is_told(self, base_model: str, n_gpus: int) -> bool:
        """Whether workers are told to load it for a job: no trainer that has it has the GPUs."""
        return not able_trainers(base_model, n_gpus, self._of_role[WorkerRole.TRAINER])

    def _no_environments(self, job: JobRecord) -> list[str | None]:
        return [self._no_environment(job.owner, *needed) for needed in job.environments]

    def _no_environment(self, run_owner: str, name: str, played_by: str) -> str | None:
        key = ("environment", run_owner, name, played_by)
        if key not in self._known:
            workers = self._of_role[WorkerRole.ENVIRONMENT]
            needed = EnvironmentConfig(name=name, workers="own" if played_by else "shared")
            self._known[key] = missing_environment(self._advice, needed, run_owner, workers)
        return self._known[key]
