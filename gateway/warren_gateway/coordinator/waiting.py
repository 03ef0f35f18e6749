"""Why nothing moves, in a sentence: which worker is missing, and what is there instead; or else where
the run stands still."""

import math
from collections.abc import Callable, Sequence

from warren_gateway.advice import Advice
from warren_gateway.coordinator.learning import op_log
from warren_gateway.coordinator.lease import busy, trainer_lease
from warren_gateway.coordinator.notices import stalled
from warren_gateway.coordinator.state.coordinator import CoordinatorState
from warren_gateway.drained import drained_one, every_one, undrain
from warren_gateway.loadable import LOADED_LATER, coming, refused
from warren_gateway.runs.ownership import played_by
from warren_schemas.config import EnvironmentConfig
from warren_schemas.control import Heartbeat, WorkerRole
from warren_schemas.events import WaitingEnded, WaitingStarted
from warren_schemas.text.explain import nearest
from warren_schemas.training import is_full

PATIENCE_S = 3.0
"""Workers may come up a moment after the run; only what is missing for longer is reported."""

Alive = Callable[[WorkerRole | None], Sequence[Heartbeat]]

_NO_BROKER = "the broker gives no answer, so no worker can be heard; the run goes on when it does"

_NO_ROOM = (
    "no space is left where trainer {} (on {}) keeps checkpoints; free some, and the run goes on by"
    " itself"
)
_NO_ROOM_FOR_ANOTHER = (
    "trainer {} (on {}) has no space left for the checkpoint of another model, and applies nothing"
    " until there is some; free some where it keeps checkpoints"
)
_BUDGETED = ", or have loaded as much for evaluations of yours as an hour allows"
_RELEASED = "; others may have its trainer meanwhile"
_ROLE = {
    WorkerRole.TRAINER: "trainer",
    WorkerRole.SAMPLER: "sampler",
    WorkerRole.ENVIRONMENT: "env worker",
}
_TRAINER = WorkerRole.TRAINER
_OWN_REMEDY = (
    "start one with: warren env-worker --gateway URL --env module:Class"
    " (of an environment named {})"
)
_ONLY_OWN = (
    "no env worker of the deployment offers {0}, and one of your own does; to let it play, submit the"
    " run with `workers: own` for this environment"
)


def report(state: CoordinatorState, alive: Alive) -> None:
    """Say once that the run waits, and once that it no longer does.

    While the broker is away nobody is missing, only unheard; once it is back workers have a moment to
    be heard again.
    """
    is_away = state.observed.is_broker_away
    if state.waiting.was_broker_away and not is_away:
        state.waiting.missing_since_s = state.waiting.since_s = None
    state.waiting.was_broker_away = is_away
    reason = _NO_BROKER if is_away else missing(state, alive)
    if reason is None:
        reason = stalled.reason(state)
    else:
        stalled.reset(state)
    if reason is None:
        state.waiting.missing_since_s = None
    elif state.waiting.missing_since_s is None:
        state.waiting.missing_since_s = state.now_s
    state.waiting.is_sure = reason is not None and not is_away and _is_overdue(state)
    _note_beginning(state)
    if reason is None and state.waiting.reason is not None:
        _set(state, None)
        state.emit(WaitingEnded())
    elif reason is not None and _is_overdue(state) and state.waiting.reason != reason:
        _set(state, reason)
        state.emit(WaitingStarted(reason=reason))


def given_up(state: CoordinatorState) -> str | None:
    """Why the run fails, once it has waited for longer than `limits.wait_s` allows, here or in the queue."""
    due_s, wait_s = _given_up_s(state), state.config.limits.wait_s
    if wait_s is None or state.now_s < due_s:
        return state.observed.given_up
    return waited_too_long(state.now_s - due_s + wait_s, wait_s, state.waiting.reason or "")


def waited_too_long(waited_s: float, wait_s: float, reason: str) -> str:
    return f"it has waited {waited_s:.0f} s, and limits.wait_s is {wait_s:g}: {reason}"


def _given_up_s(state: CoordinatorState) -> float:
    """When; never while nothing is known to be missing, or where the run may wait for ever."""
    since_s, wait_s = state.waiting.since_s, state.config.limits.wait_s
    if not state.waiting.is_sure or since_s is None or wait_s is None:
        return math.inf
    return since_s + wait_s


def _note_beginning(state: CoordinatorState) -> None:
    """A wait goes on while its reason changes, and when another gateway takes the run over."""
    if state.waiting.is_sure and state.waiting.since_s is None:
        state.waiting.since_s = state.waiting.missing_since_s
        state.change.run["waiting_since_s"] = state.waiting.since_s


def forget(state: CoordinatorState) -> None:
    """The run wants nothing for now."""
    if state.waiting.reason is not None:
        _set(state, None)
        state.emit(WaitingEnded())
    state.waiting.missing_since_s, state.waiting.is_sure = None, False
    stalled.reset(state)


def missing(state: CoordinatorState, alive: Alive) -> str | None:
    if state.observed.without_rows is not None:
        return state.observed.without_rows
    if (reason := _missing_disk_space(state, alive(_TRAINER))) is not None:
        return reason
    base = state.spec.base_model
    is_without = state.needs_trainer and state.lease.holder is None
    advice, n_gpus, trainers = state.observed.advice, state.config.model.gpus, alive(_TRAINER)
    if is_without and (reason := nobody_trains(advice, base, n_gpus, trainers)) is not None:
        return reason
    if not is_sampled(state, alive) and state.needs_samplers:
        samplers, is_told = (
            alive(WorkerRole.SAMPLER),
            not trainer_lease.able_trainers(base, n_gpus, trainers),
        )
        reason = nobody_offers(advice, WorkerRole.SAMPLER, base, samplers, is_told=is_told)
        is_later = not state.needs_trainer and reason == LOADED_LATER.format(base)
        return reason + _BUDGETED if is_later else reason
    if state.needs_environments and (reason := _missing_environment(state, alive)):
        return reason + (_RELEASED if state.lease.is_released else "")
    if is_without and not trainer_lease.has_room(state, trainers):
        return busy.reason(
            base,
            [beat for beat in trainers if beat.n_devices >= n_gpus],
            state.observed.trained_runs,
            owner=state.owner,
            is_full=is_full(state.spec),
            advice=advice,
        )
    return state.source.missing(state)


def _missing_disk_space(state: CoordinatorState, trainers: Sequence[Heartbeat]) -> str | None:
    """A trainer that waits for it applies nobody's ops."""
    for trainer in trainers:
        if state.model in trainer.without_disk_space:
            return _NO_ROOM.format(trainer.worker, trainer.host)
        is_ours = trainer.worker == state.lease.holder and op_log.has_unanswered(state.learning)
        if trainer.without_disk_space and is_ours:
            return _NO_ROOM_FOR_ANOTHER.format(trainer.worker, trainer.host)
    return None


def is_sampled(state: CoordinatorState, alive: Alive) -> bool:
    """Whether somebody samples for its episodes."""
    return any(state.spec.base_model in worker.offers for worker in alive(WorkerRole.SAMPLER))


def unhosted(state: CoordinatorState, alive: Alive) -> frozenset[int]:
    """The environments that nobody hosts, by their numbers; what a client drives, and what nobody plays, has none."""
    if state.is_clients or not state.uses_environments:
        return frozenset()
    workers = alive(WorkerRole.ENVIRONMENT)
    return frozenset(
        number
        for number, environment in enumerate(state.config.environments)
        if missing_environment(state.observed.advice, environment, state.owner, workers)
    )


def lacks_environment(state: CoordinatorState, alive: Alive) -> bool:
    """Whether the run would stand still for want of an env worker if it had everything else."""
    begins_with_episodes = state.uses_environments and state.config.sft is None
    return begins_with_episodes and _missing_environment(state, alive) is not None


def _missing_environment(state: CoordinatorState, alive: Alive) -> str | None:
    workers = alive(WorkerRole.ENVIRONMENT)
    reasons = (
        missing_environment(state.observed.advice, environment, state.owner, workers)
        for environment in state.config.environments
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


def next_check_s(state: CoordinatorState) -> float:
    """When a missing worker, or that nothing moves, would have to be reported, or the run to be given up."""
    if state.waiting.missing_since_s is None or _is_overdue(state):
        return min(stalled.next_check_s(state), _given_up_s(state))
    return state.waiting.missing_since_s + PATIENCE_S


def _is_overdue(state: CoordinatorState) -> bool:
    since = state.waiting.missing_since_s
    return since is not None and state.now_s - since >= PATIENCE_S


def _set(state: CoordinatorState, reason: str | None) -> None:
    state.waiting.reason = reason
    state.change.run["waiting_for"] = reason
    if reason is None:
        state.waiting.since_s = state.change.run["waiting_since_s"] = None


def nobody_trains(
    advice: Advice, base: str, n_gpus: int, trainers: Sequence[Heartbeat]
) -> str | None:
    """Why none of these trainers could hold a model that needs so many GPUs; None where one could."""
    if trainer_lease.able_trainers(base, n_gpus, trainers):
        return None
    large = [beat for beat in trainers if beat.n_devices >= n_gpus]
    if (later := coming(base, large, is_told=True)) is not None:
        return later
    offered = [beat.n_devices for beat in trainers if base in beat.offers]
    if not offered:
        return nobody_offers(advice, _TRAINER, base, trainers)
    if (drained := drained_one(base, large)) is not None:
        return f"{every_one(_ROLE[_TRAINER], base, n_gpus)}; {undrain(drained)}"
    remedy = advice.more_gpus(base, n_gpus)
    return (
        f"it needs {n_gpus} GPUs, and no trainer of {base} has more than {max(offered)}; {remedy}"
    )


def nobody_offers(
    advice: Advice,
    role: WorkerRole,
    offer: str,
    workers: Sequence[Heartbeat],
    *,
    is_told: bool = False,
) -> str:
    """The sentence for a model or an environment that none of these workers offers; `is_told` if one that may load it
    will be told to."""
    if (later := coming(offer, workers, is_told=is_told)) is not None:
        return later
    is_loading = any(not worker.offers and not worker.is_draining for worker in workers)
    patience = "wait for what is still loading, or " if is_loading else ""
    if (drained := drained_one(offer, workers)) is not None:
        return f"{every_one(_ROLE[role], offer)}; {patience}{undrain(drained)}"
    offered = sorted({name for worker in workers for name in worker.offers})
    remedy = patience + advice.start(role, offer)
    if (why := refused(offer, workers)) is not None:
        return f"no {_ROLE[role]} offers {offer}, and {why}; {remedy}"
    guess = nearest(offer, offered)
    hint = f"did you mean {guess}? If not, {remedy}" if guess else remedy
    return f"no {_ROLE[role]} offers {offer} ({_online(workers, offered)}); {hint}"


def _no_own_worker(offer: str, workers: Sequence[Heartbeat]) -> str:
    if (drained := drained_one(offer, workers)) is not None:
        return f"{every_one('env worker of your own', offer)}; {undrain(drained)}"
    offered = sorted({name for worker in workers for name in worker.offers})
    online = _online(workers, offered)
    return f"no env worker of your own offers {offer} ({online}); {_OWN_REMEDY.format(offer)}"


def _online(workers: Sequence[Heartbeat], offered: Sequence[str]) -> str:
    n_drained = sum(worker.is_draining for worker in workers)
    drained = f", {n_drained} being drained" if n_drained else ""
    n_workers = len(workers) - n_drained
    if n_workers == 0:
        return f"none is online{drained}"
    # A worker that is starting says so before it has loaded what it will offer.
    return f"{n_workers} online with {', '.join(offered) or 'nothing yet'}{drained}"
