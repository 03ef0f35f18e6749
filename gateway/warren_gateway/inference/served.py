"""Names of models -> whose weights, as far as the caller may see them.

Invariants
- What one owner calls a name goes before a base model of the same name that comes online later.
- A policy is seen by its run's owner, by those it is shared with and by admins, and so is what users have uploaded; another base model by
  everybody.
"""

from functools import partial

from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from warren_gateway.access.caller import Viewer
from warren_gateway.adapters.problems import NoSuchAdapter
from warren_gateway.adapters.stored import find, is_readable, policy_of, reference_of
from warren_gateway.adapters.stored import listed as listed_adapters
from warren_gateway.advice import SEPARATE_WORKERS, Advice
from warren_gateway.base_models.problems import NoSuchBaseModel
from warren_gateway.base_models.stored import exact_name, worker_name
from warren_gateway.base_models.stored import listed as listed_base_models
from warren_gateway.base_models.stored import reference_of as base_reference_of
from warren_gateway.inference.names import find_name, names_of
from warren_gateway.inference.pinning import has_base, starts_with_adapter
from warren_gateway.registry import Registry
from warren_gateway.runs.checkpoints import policies_of
from warren_gateway.runs.owned import read_by, readable_run
from warren_gateway.store.store import Store
from warren_gateway.store.tables import AdapterRow, Model, Run, ServedRow, SnapshotRow
from warren_gateway.trainable.saved import is_kept
from warren_schemas.base_models.names import is_reference, is_uploaded
from warren_schemas.config.numbers import is_dataset_reference
from warren_schemas.control import WorkerRole
from warren_schemas.episode import PolicyRef
from warren_schemas.ids import ModelId, can_be_id
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
        if is_reference(name) or is_uploaded(name):
            return bare(await self._store.read(partial(_uploaded, viewer, name)))
        if "/" in name and name in self.offered:
            return bare(name)
        named = await self._store.read(partial(_named, viewer, name))
        if named is not None:
            return named
        if name in self.offered:
            return bare(name)
        return await self._store.read(partial(_policy, viewer, name))

    async def snapshot(self, viewer: Viewer, model: str, name: str) -> PolicyRef:
        """Of the snapshot of this very name, never of a version of this number.

        Raises `NoSuchModel`, `StoreUnavailable`.
        """
        return await self._store.read(partial(_kept_snapshot, viewer, model, name))

    async def require_readable(self, viewer: Viewer, policy: PolicyRef) -> None:
        """Of a policy that was found before: it may have been shared with the viewer, and be no longer.

        Raises `NoSuchModel`, `StoreUnavailable`.
        """
        if policy.model != _BARE or is_uploaded(policy.base_model):
            await self._store.read(partial(_require_readable, viewer, policy))

    async def listed(self, viewer: Viewer) -> list[ServedModel]:
        """Base models, the names that are served, adapters, then for each run its policy as it moves on, and the
        newest one pinned.

        Raises `StoreUnavailable`.
        """
        offered = self.offered
        names, adapters, rows = await self._store.read(partial(_listed, viewer))
        bases = await self._store.read(lambda session: listed_base_models(session, viewer))
        named = [
            ServedModel(
                id=row.name if row.owner == viewer.user else f"{row.owner}/{row.name}",
                created=int(row.since_s),
                owned_by=row.owner,
            )
            for row in names
        ]
        untrained = [
            ServedModel(id=base, owned_by="warren") for base in offered if not is_uploaded(base)
        ]
        trained = [
            ServedModel(id=name, created=int(run.created_s), owned_by=run.owner)
            for run, model in rows
            for name in (run.id, *(f"{run.id}@{step}" for step, _ in model.policies[-1:]))
        ]
        brought = [
            ServedModel(id=reference_of(row), created=int(row.created_s), owned_by=row.owner)
            for row in adapters
        ]
        brought += [
            ServedModel(
                id=f"@{base_reference_of(row)}", created=int(row.created_s), owned_by=row.owner
            )
            for row in bases
            if worker_name(row) in offered
        ]
        return untrained + named + brought + trained


def bare(base_model: str) -> PolicyRef:
    """Of a base model as it is."""
    return PolicyRef(model=_BARE, base_model=base_model, min_version=0)


def _named(viewer: Viewer, name: str, session: Session) -> PolicyRef | None:
    """What is served under a name now."""
    row = find_name(session, viewer, name)
    if row is None:
        return None
    if row.adapter_id is not None:
        return policy_of(session.get_one(AdapterRow, row.adapter_id))
    if row.run_id is None:
        return bare(_uploaded(viewer, row.base_model, session))
    model = session.exec(select(Model).where(col(Model.run_id) == row.run_id)).one()
    return _newest(model) if row.version is None else _exactly(model, row.version, row.url)


def _uploaded(viewer: Viewer, base_model: str, session: Session) -> str:
    """What GPU workers call it, if the viewer may use it. Raises `NoSuchModel`."""
    try:
        return exact_name(session, viewer, base_model)
    except NoSuchBaseModel as error:
        raise NoSuchModel(base_model) from error


def _policy(viewer: Viewer, name: str, session: Session) -> PolicyRef:
    """Raises `NoSuchModel`."""
    of, at, which = name.partition("@")
    found = _model(viewer, of, session)
    if found is None:
        return _adapter(viewer, name, session)
    run, model = found
    if model.is_clients:
        return _snapshot(session, model, which if at else None, name)
    return _pinned(run, model, which, name) if at else _newest(model)


def _adapter(viewer: Viewer, name: str, session: Session) -> PolicyRef:
    """Of one that was uploaded. Raises `NoSuchModel`."""
    if not is_dataset_reference(name):
        raise NoSuchModel(name)
    try:
        return policy_of(find(session, viewer, name))
    except NoSuchAdapter as error:
        raise NoSuchModel(name) from error


def _snapshot(session: Session, model: Model, which: str | None, name: str) -> PolicyRef:
    """Of a model that its client trains: the newest that it published, or a version or a snapshot exactly."""
    if which is None:
        if model.policy_url is None:
            raise NoSuchModel(name)
        return _newest(model)
    kept = session.exec(_kept_snapshots(model)).all()
    for row in kept:
        if row.name == which:
            return _exactly(model, row.version, row.url)
    urls = {policy.version: policy.url for policy in policies_of(model)}
    urls |= {row.version: row.url for row in kept}
    is_number = which.isascii() and which.isdecimal() and len(which) <= _MOST_DIGITS
    if not is_number or (url := urls.get(int(which))) is None:
        raise NoSuchModel(name)
    return _exactly(model, int(which), url)


def _kept_snapshot(viewer: Viewer, model: str, name: str, session: Session) -> PolicyRef:
    """Raises `NoSuchModel`."""
    if (found := _model(viewer, model, session)) is None:
        raise NoSuchModel(model)
    _, of = found
    named = session.exec(_kept_snapshots(of).where(col(SnapshotRow.name) == name)).first()
    if named is None:
        raise NoSuchModel(f"{model}@{name}")
    return _exactly(of, named.version, named.url)


def _kept_snapshots(model: Model) -> SelectOfScalar[SnapshotRow]:
    return select(SnapshotRow).where(col(SnapshotRow.model_id) == model.id, is_kept(SnapshotRow))


def _exactly(model: Model, version: int, url: str | None) -> PolicyRef:
    return PolicyRef(
        model=ModelId(model.id),
        base_model=model.base_model,
        min_version=version,
        url=url,
        pinned=True,
    )


def _newest(model: Model) -> PolicyRef:
    """Of a run whose adapter is not published yet: a version without an address.

    Samplers answer that with `policy_unavailable`, and never with the bare base model. Where a client has published it for
    nobody to move on to, it is this very version.
    """
    if model.live_version not in (None, model.policy_version):
        return _exactly(model, model.policy_version, model.policy_url)
    is_coming = starts_with_adapter(model) and model.policy_url is None
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
    if not older and not has_base(run, model, int(wanted)):
        raise NoSuchModel(name)
    newest = older[-1] if older else None
    return _exactly(model, newest.version if newest else 0, newest.url if newest else None)


def _require_readable(viewer: Viewer, policy: PolicyRef, session: Session) -> None:
    """Of the model of a run, an adapter, or a base model that was uploaded. Raises `NoSuchModel`."""
    if policy.model == _BARE:
        _uploaded(viewer, policy.base_model, session)
        return
    model = session.get(Model, policy.model)
    if model is None:
        is_seen = is_readable(session, viewer, policy.model)
    else:
        is_seen = readable_run(session, viewer, model.run_id) is not None
    if not is_seen:
        raise NoSuchModel(policy.model)


def _model(viewer: Viewer, name: str, session: Session) -> tuple[Run, Model] | None:
    if not can_be_id(name):
        return None
    is_it = (col(Model.run_id) == name) | ((col(Model.id) == name) & col(Model.is_clients))
    model = session.exec(select(Model).where(is_it)).first()
    run = None if model is None else readable_run(session, viewer, model.run_id)
    return None if run is None or model is None else (run, model)


def _listed(
    viewer: Viewer, session: Session
) -> tuple[list[ServedRow], list[AdapterRow], list[tuple[Run, Model]]]:
    names, adapters = names_of(viewer, session), listed_adapters(session, viewer)
    return names, adapters, _trained(viewer, session)


def _trained(viewer: Viewer, session: Session) -> list[tuple[Run, Model]]:
    query = (
        select(Run, Model)
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(read_by(viewer), col(Model.policy_url).is_not(None))
        .order_by(col(Run.created_s).desc())
        .limit(_N_LISTED)
    )
    return list(session.exec(query))
