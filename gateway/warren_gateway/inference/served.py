"""Names of models -> whose weights, as far as the caller may see them.

Invariant: a policy is seen by its run's owner, by those it is shared with and by admins; a base model by everybody.
"""

from functools import partial

from sqlmodel import Session, col, select

from warren_gateway.access.caller import Viewer
from warren_gateway.advice import SEPARATE_WORKERS, Advice
from warren_gateway.registry import Registry
from warren_gateway.runs.checkpoints import policies_of
from warren_gateway.runs.owned import read_by, readable_run
from warren_gateway.store.store import Store
from warren_gateway.store.tables import Model, Run
from warren_schemas.control import WorkerRole
from warren_schemas.episode import PolicyRef
from warren_schemas.ids import ModelId
from warren_schemas.openai import ServedModel

_BARE = ModelId("model_base")
"""Whose live weights are the base model's and never change."""
_N_LISTED = 500
_MOST_DIGITS = 9


class NoSuchModel(LookupError):
    """Neither a base model that is offered nor a policy of a run of this owner."""


class Served:
    def __init__(self, store: Store, registry: Registry, advice: Advice = SEPARATE_WORKERS) -> None:
        self.advice = advice
        self._store = store
        self._registry = registry

    @property
    def offered(self) -> list[str]:
        """Base models that some live sampler offers."""
        samplers = self._registry.alive(WorkerRole.SAMPLER)
        return sorted({base for sampler in samplers for base in sampler.offers})

    async def policy(self, viewer: Viewer, name: str) -> PolicyRef:
        """Raises `NoSuchModel`, `StoreUnavailable`."""
        if name in self.offered:
            return PolicyRef(model=_BARE, base_model=name, min_version=0)
        run, at, step = name.partition("@")
        found = await self._store.transact(partial(_model, viewer, run))
        if found is None:
            raise NoSuchModel(name)
        return _pinned(*found, step, name) if at else _newest(found[1])

    async def listed(self, viewer: Viewer) -> list[ServedModel]:
        """Base models, then for each run its policy as it moves on, and the newest one pinned.

        Raises `StoreUnavailable`.
        """
        rows = await self._store.transact(partial(_trained, viewer))
        bare = [ServedModel(id=base, owned_by="warren") for base in self.offered]
        trained = [
            ServedModel(id=name, created=int(run.created_s), owned_by=run.owner)
            for run, model in rows
            for name in (run.id, *(f"{run.id}@{step}" for step, _ in model.policies[-1:]))
        ]
        return bare + trained


def _newest(model: Model) -> PolicyRef:
    """Of a run whose adapter is not published yet: a version without an address.

    Samplers answer that with `policy_unavailable`, and never with the bare base model.
    """
    is_coming = _starts_with_adapter(model) and model.policy_url is None
    return PolicyRef(
        model=ModelId(model.id),
        base_model=model.base_model,
        min_version=1 if is_coming else model.policy_version,
        url=model.policy_url,
    )


def _pinned(run: Run, model: Model, wanted: str, name: str) -> PolicyRef:
    """The policy in force after a step of the run, as long as the trainer keeps it."""
    is_number = wanted.isascii() and wanted.isdecimal() and len(wanted) <= _MOST_DIGITS
    if not is_number or int(wanted) > run.step:
        raise NoSuchModel(name)
    older = [policy for policy in policies_of(model) if policy.step <= int(wanted)]
    if not older and not _has_base(run, model, int(wanted)):
        raise NoSuchModel(name)
    return PolicyRef(
        model=ModelId(model.id),
        base_model=model.base_model,
        min_version=older[-1].version if older else 0,
        url=older[-1].url if older else None,
        pinned=True,
    )


def _has_base(run: Run, model: Model, step: int) -> bool:
    """Whether the base model itself was in force then: before the first policy that the run made."""
    began_bare = (
        run.config.get("sft") is None
        and run.config.get("resume_from") is None
        and not _starts_with_adapter(model)
    )
    first_version = model.policies[0][1] if model.policies else 1
    return began_bare and (step == 0 or first_version == 1)


def _starts_with_adapter(model: Model) -> bool:
    """Then somebody's adapter is its version 0, published before anybody samples."""
    return model.spec.get("update", {}).get("start_adapter") is not None


def _model(viewer: Viewer, name: str, session: Session) -> tuple[Run, Model] | None:
    run = readable_run(session, viewer, name)
    if run is None:
        return None
    model = session.exec(select(Model).where(col(Model.run_id) == run.id)).first()
    return None if model is None else (run, model)


def _trained(viewer: Viewer, session: Session) -> list[tuple[Run, Model]]:
    query = (
        select(Run, Model)
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(read_by(viewer), col(Model.policy_url).is_not(None))
        .order_by(col(Run.created_s).desc())
        .limit(_N_LISTED)
    )
    return list(session.exec(query))
