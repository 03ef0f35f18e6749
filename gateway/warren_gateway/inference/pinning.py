"""Which policy of a run a name is pinned to, and whether its files stay.

Invariant: a policy is taken only if it will be there once every op in the log is applied, whoever applies it: a
trainer keeps the newest `KEEP_POLICIES` versions, and those that later ops ask to keep.
"""

from dataclasses import dataclass

from pydantic import BaseModel, Field
from sqlmodel import Session, col, func, select

from warren_gateway.runs.checkpoints import policies_of
from warren_gateway.store.tables import Checkpoint, Model, RequestRow, Run
from warren_schemas.events import RunState
from warren_schemas.http import PolicyView
from warren_schemas.training import KEEP_POLICIES


class CannotServe(Exception):
    """A name can't point there; says why and what can be done."""

    def __init__(self, why: str, hint: str | None = None) -> None:
        super().__init__(why)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Pinned:
    """A policy; without a step and a version whichever is the newest."""

    step: int | None = None
    version: int | None = None
    url: str | None = None
    """None: the base model itself."""


NEWEST = Pinned()
"""Of a run whose policy a name follows."""


class _Policy(BaseModel):
    version_issued: int = 0


class _Learned(BaseModel):
    policy: _Policy = Field(default_factory=_Policy)


class _Done(BaseModel):
    """Of the coordinator's counters, what policies are held against."""

    learning: _Learned = Field(default_factory=_Learned)


def after_step(session: Session, run: Run, model: Model, step: int) -> Pinned:
    """The policy in force after a step of the run. Raises `CannotServe`."""
    if step > run.step:
        raise CannotServe(f"{run.id} has taken {run.step} steps, and not {step}")
    older = [policy for policy in policies_of(model) if policy.step <= step]
    if older and older[-1] in _staying(session, run, model):
        return Pinned(step, older[-1].version, older[-1].url)
    if not older and has_base(run, model, step):
        return Pinned(step, 0, None)
    saved = select(Checkpoint).where(col(Checkpoint.model_id) == model.id)
    found = session.exec(saved.where(col(Checkpoint.step) == step)).first()
    if found is not None and RunState(run.state).is_final:
        return Pinned(step, found.version, found.url)
    raise _gone(session, run, model, f"The policy after step {step} of {run.id}")


def of_checkpoint(session: Session, run: Run, model: Model, name: str) -> Pinned:
    """Raises `CannotServe`."""
    found = session.get(Checkpoint, (model.id, name))
    if found is None:
        raise CannotServe(
            f"{run.id} has no checkpoint {name}", f"`warren checkpoints ls {run.id}` lists them."
        )
    same = (policy for policy in _staying(session, run, model) if policy.version == found.version)
    if (policy := next(same, None)) is not None:
        return Pinned(found.step, found.version, policy.url)
    if RunState(run.state).is_final:
        return Pinned(found.step, found.version, found.url)
    raise _gone(session, run, model, f"The policy of {name} of {run.id}")


def has_base(run: Run, model: Model, step: int) -> bool:
    """Whether the base model itself was in force then: before the first policy that the run made."""
    began_bare = (
        run.config.get("sft") is None
        and run.config.get("resume_from") is None
        and not starts_with_adapter(model)
    )
    first_version = model.policies[0][1] if model.policies else 1
    return began_bare and (step == 0 or first_version == 1)


def starts_with_adapter(model: Model) -> bool:
    """Then somebody's adapter is its version 0, published before anybody samples."""
    return model.spec.get("update", {}).get("start_adapter") is not None


def _staying(session: Session, run: Run, model: Model) -> tuple[PolicyView, ...]:
    policies = policies_of(model)
    issued = _Done.model_validate(run.progress or {}).learning.policy.version_issued
    n_coming = max(0, issued - policies[-1].version) if policies else 0
    if model.is_clients:
        n_coming = _n_publishing(session, model)
    return policies[max(0, len(policies) + n_coming - KEEP_POLICIES) :]


def _n_publishing(session: Session, model: Model) -> int:
    """What a client has asked for, of which some may be in the log already with less to keep."""
    is_open = (col(RequestRow.model_id) == model.id) & col(RequestRow.done_s).is_(None)
    publishes = is_open & (col(RequestRow.kind) == "publish_policy")
    return session.exec(select(func.count()).select_from(RequestRow).where(publishes)).one()


def _gone(session: Session, run: Run, model: Model, what: str) -> CannotServe:
    staying = _staying(session, run, model)
    kept = f"steps {staying[0].step} to {staying[-1].step}" if staying else "none"
    is_over = RunState(run.state).is_final
    hint = None if is_over else "Checkpoints of a run can be served once it is over."
    return CannotServe(f"{what} is not kept; policies that are: {kept}", hint)
