"""Why nothing moves, in a sentence: which worker is missing, and what is there instead; or else where
the run stands still."""

from collections.abc import Callable, Sequence

from warren_gateway.advice import Advice
from warren_gateway.coordinator import busy, trainer_lease
from warren_gateway.coordinator.notices import stalled
from warren_gateway.coordinator.rollouts.ownership import played_by
from warren_gateway.coordinator.state import Memory
from warren_schemas.config import EnvironmentConfig
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.events import WaitingEnded, WaitingStarted
from warren_schemas.text.explain import nearest

PATIENCE_S = 3.0
"""Workers may come up a moment after the run; only what is missing for longer is reported."""

Alive = Callable[[WorkerRole | None], Sequence[Heartbeat]]

_ROLE = {
    WorkerRole.TRAINER: "trainer",
    WorkerRole.SAMPLER: "sampler",
    WorkerRole.ENVIRONMENT: "env worker",
}
_OWN_REMEDY = (
    "start one with: warren env-worker --gateway URL --env module:Class"
    " (of an environment named {})"
)
_ONLY_OWN = (
    "no env worker of the deployment offers {0}, and one of your own does; to let it play, submit the"
    " run with `workers: own` for this environment"
)


def report(memory: Memory, alive: Alive) -> None:
    """Say once that the run waits, and once that it no longer does."""
    reason = missing(memory, alive)
    if reason is None:
        reason = stalled.reason(memory)
    else:
        stalled.forget(memory)
    if reason is None:
        memory.missing_since_s = None
    elif memory.missing_since_s is None:
        memory.missing_since_s = memory.now_s
    if reason is None and memory.waiting_for is not None:
        _set(memory, None)
        memory.emit(WaitingEnded())
    elif reason is not None and _is_overdue(memory) and memory.waiting_for != reason:
        _set(memory, reason)
        memory.emit(WaitingStarted(reason=reason))


def missing(memory: Memory, alive: Alive) -> str | None:
    base = memory.spec.base_model
    needs = [WorkerRole.TRAINER] if memory.lease.holder is None else []
    if memory.plays_episodes:
        needs.append(WorkerRole.SAMPLER)
    for role in needs:
        workers = alive(role)
        if not any(base in worker.offers for worker in workers):
            return nobody_offers(memory.advice, role, base, workers)
    if memory.plays_episodes and (reason := _missing_environment(memory, alive)):
        return reason
    if (
        memory.lease.holder is None
        and trainer_lease.choose(memory, alive(WorkerRole.TRAINER)) is None
    ):
        return busy.reason(memory, alive(WorkerRole.TRAINER))
    return memory.source.missing(memory)


def _missing_environment(memory: Memory, alive: Alive) -> str | None:
    workers = alive(WorkerRole.ENVIRONMENT)
    reasons = (
        missing_environment(memory.advice, environment, memory.owner, workers)
        for environment in memory.config.environments
    )
    return next((reason for reason in reasons if reason is not None), None)


def missing_environment(
    advice: Advice, environment: EnvironmentConfig, run_owner: str, workers: Sequence[Heartbeat]
) -> str | None:
    """The deployment's env workers and the owner's own ones do not stand in for each other."""
    owner = played_by(environment, run_owner)
    asked = [worker for worker in workers if worker.owner == owner]
    if any(environment.name in worker.offers for worker in asked):
        return None
    if owner is not None:
        return _no_own_worker(environment.name, asked)
    if any(environment.name in w.offers for w in workers if w.owner == run_owner):
        return _ONLY_OWN.format(environment.name)
    return nobody_offers(advice, WorkerRole.ENVIRONMENT, environment.name, asked)


def next_check_s(memory: Memory) -> float:
    """When a missing worker, or that nothing moves, would have to be reported."""
    if memory.missing_since_s is None or _is_overdue(memory):
        return stalled.next_check_s(memory)
    return memory.missing_since_s + PATIENCE_S


def _is_overdue(memory: Memory) -> bool:
    since = memory.missing_since_s
    return since is not None and memory.now_s - since >= PATIENCE_S


def _set(memory: Memory, reason: str | None) -> None:
    memory.waiting_for = reason
    memory.change.run["waiting_for"] = reason


def nobody_offers(
    advice: Advice, role: WorkerRole, offer: str, workers: Sequence[Heartbeat]
) -> str:
    """The sentence for a model or an environment that none of these workers offers."""
    offered = sorted({name for worker in workers for name in worker.offers})
    online = _online(len(workers), offered)
    guess = nearest(offer, offered)
    remedy = advice.start(role, offer)
    if any(not worker.offers for worker in workers):
        remedy = f"wait for what is still loading, or {remedy}"
    hint = f"did you mean {guess}? If not, {remedy}" if guess else remedy
    return f"no {_ROLE[role]} offers {offer} ({online}); {hint}"


def _no_own_worker(offer: str, workers: Sequence[Heartbeat]) -> str:
    offered = sorted({name for worker in workers for name in worker.offers})
    online = _online(len(workers), offered)
    return f"no env worker of your own offers {offer} ({online}); {_OWN_REMEDY.format(offer)}"


def _online(n_workers: int, offered: Sequence[str]) -> str:
    if n_workers == 0:
        return "none is online"
    # A worker that is starting says so before it has loaded what it will offer.
    return f"{n_workers} online with {', '.join(offered) or 'nothing yet'}"
