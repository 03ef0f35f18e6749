"""Names of models -> whose weights, as far as the caller may see them.

Invariant: a policy is seen by its run's owner and by nobody else; a base model by everybody.
"""

from functools import partial

from sqlmodel import Session, col, select

from warren_gateway.advice import SEPARATE_WORKERS, Advice
from warren_gateway.owned import owned_run
from warren_gateway.registry import Registry
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

    async def policy(self, owner: str, name: str) -> PolicyRef:
        """Raises `NoSuchModel`, `StoreUnavailable`."""
        if name in self.offered:
            return PolicyRef(model=_BARE, base_model=name, min_version=0)
        run, at, version = name.partition("@")
        model = await self._store.transact(partial(_model, owner, run))
        if model is None:
            raise NoSuchModel(name)
        return _pinned(model, version, name) if at else _newest(model)

    async def listed(self, owner: str) -> list[ServedModel]:
        """Base models, then for each run its policy as it moves on, and the newest version of it.

        Raises `StoreUnavailable`.
        """
        rows = await self._store.transact(partial(_trained, owner))
        bare = [ServedModel(id=base, owned_by="warren") for base in self.offered]
        trained = [
            ServedModel(id=name, created=int(run.created_s), owned_by=owner)
            for run, model in rows
            for name in (run.id, f"{run.id}@{model.policy_version}")
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


def _pinned(model: Model, version: str, name: str) -> PolicyRef:
    """Version 0 is the base model itself, or what the run started with."""
    is_number = version.isascii() and version.isdecimal() and len(version) <= _MOST_DIGITS
    if not is_number or int(version) > model.policy_version:
        raise NoSuchModel(name)
    wanted = int(version)
    url = _address(model, wanted)
    if url is None and _starts_with_adapter(model):
        raise NoSuchModel(name)
    return PolicyRef(
        model=ModelId(model.id),
        base_model=model.base_model,
        min_version=wanted,
        url=url,
        pinned=True,
    )


def _address(model: Model, version: int) -> str | None:
    """Versions lie side by side in one folder; None: the base model itself."""
    if version == model.policy_version:
        return model.policy_url
    if version == 0 and not _starts_with_adapter(model):
        return None
    folder = model.policy_url.rpartition("/v")[0] if model.policy_url else ""
    return f"{folder}/v{version}"


def _starts_with_adapter(model: Model) -> bool:
    """Then somebody's adapter is its version 0, published before anybody samples."""
    return model.spec.get("update", {}).get("start_adapter") is not None


def _model(owner: str, run: str, session: Session) -> Model | None:
    if owned_run(session, owner, run) is None:
        return None
    return session.exec(select(Model).where(col(Model.run_id) == run)).first()


def _trained(owner: str, session: Session) -> list[tuple[Run, Model]]:
    query = (
        select(Run, Model)
        .join(Model, col(Model.run_id) == col(Run.id))
        .where(col(Run.owner) == owner, col(Model.policy_url).is_not(None))
        .order_by(col(Run.created_s).desc())
        .limit(_N_LISTED)
    )
    return list(session.exec(query))
