"""All that one user of the Tinker protocol can have, by the names that it goes by."""

import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
from sqlmodel import Session, SQLModel, col, select
from tests.support.gateway import Gateway, heartbeat
from tests.support.sealed_folders import write_text
from tests.support.tinker import Wire

from warren_gateway.access.caller import Viewer
from warren_gateway.coordinator.state.client_change import failure
from warren_gateway.store.tables import Checkpoint, Model, RequestRow, SnapshotRow, TinkerSample
from warren_gateway.tinker.paths import key_of
from warren_gateway.trainable.asking import Wanted
from warren_gateway.trainable.submitting import insert_request
from warren_schemas.codec.wire import encode
from warren_schemas.control import WorkerRole
from warren_schemas.http.trainable import CreateModel
from warren_schemas.ids import ModelId, new_id
from warren_schemas.training import OptimStep

BASE = "warren/tiny"
SECRET, FOLDER = "the-secret-of-ann", "the-folder-of-ann"


@dataclass(frozen=True, slots=True)
class Tenant:
    """Names of each kind."""

    session: str
    project: str
    training: str
    model: str
    """What the training run's model is called by Warren's own API."""
    run: str
    sampler: str
    op: str
    """A future, as the next two are."""
    sample: str
    creation: str
    weights: str
    sampler_weights: str
    external_weights: str

    @property
    def names(self) -> dict[str, str]:
        return asdict(self)

    def decoy(self) -> "Tenant":
        """Names of nobody, which differ from these in digits alone: what is made of both in the same way does, too."""
        return Tenant(**{kind: _ID.sub(_another, name) for kind, name in self.names.items()})


_ID = re.compile(r"(?<=_)[0-9a-f]{28}")


def _another(found: "re.Match[str]") -> str:
    return found[0].translate(str.maketrans("0123456789", "1234567890"))


async def two_tenants(gateway: Gateway, folder: Path) -> tuple[Tenant, Tenant]:
    """Ann, who is attacked, and Bob."""
    for worker, role in (("s1", WorkerRole.SAMPLER), ("t1", WorkerRole.TRAINER)):
        gateway.services.registry.hear(heartbeat(worker, role, BASE))
    ann = await tenant(gateway, "ann", gateway.ann, folder / FOLDER, SECRET)
    return ann, await tenant(gateway, "bob", gateway.bob, folder / "of-bob", "nothing")


async def tenant(
    gateway: Gateway, user: str, http: aiohttp.ClientSession, folder: Path, secret: str
) -> Tenant:
    """A user with one thing of every kind, which has come to its end; `secret` is in their metadata."""
    wire = Wire(http)
    session = await wire.session()
    project = new_id("project")
    async with http.put(f"/api/v1/sessions/{session}/project", json={"project_id": project}) as put:
        assert put.status == 200
    name = f"{session}:train:0"
    body = CreateModel(base_model=BASE, name=name, key=key_of(name), metadata={"secret": secret})
    made, _ = await gateway.services.models.create(Viewer(user), body)
    sampler = await wire.sampler(session, 0, base_model=BASE)
    url, sample = f"{folder}/{made.id}/states/op-00000001", f"{sampler}:7"
    write_text(secret, url)

    def keep(store: Session) -> str:
        model = store.exec(select(Model).where(col(Model.run_id) == made.run)).one()
        _keep_weights(store, model.id, url, secret)
        store.add(TinkerSample(**_sampled(sample, user, secret, gateway.store.gateway)))
        return _answered(store, Viewer(user), model.id, secret)

    op = await gateway.store.transact(keep)
    paths = {
        kind: f"tinker://{name}/{kind}/{of}"
        for kind, of in (("weights", "s1"), ("sampler_weights", "w1"), ("external_weights", "out"))
    }
    return Tenant(
        session=session,
        project=project,
        training=name,
        model=made.id,
        run=made.run,
        sampler=sampler,
        op=op,
        sample=sample,
        creation=f"{name}:create",
        **paths,
    )


def _keep_weights(store: Session, model: str, url: str, secret: str) -> None:
    at: dict[str, Any] = {"model_id": model, "version": 1, "url": url, "size_bytes": 9}
    at |= {"created_s": time.time(), "metadata_": {"secret": secret}}
    store.add(Checkpoint(**at, name="s1", op=1, step=0))
    store.add(SnapshotRow(**at, name="w1"))
    store.add(SnapshotRow(**at, name="external.out"))


def _sampled(name: str, owner: str, secret: str, gateway: str) -> dict[str, Any]:
    done: dict[str, Any] = {"done_s": time.time(), "outcome": secret.encode()}
    done |= {"sampler": name.rpartition(":")[0], "completion": 1}
    return {"id": name, "owner": owner, "holder": gateway, "held_until_s": 0.0, **done}


def _answered(store: Session, viewer: Viewer, model: str, secret: str) -> str:
    """The future of an op that has failed."""
    future = insert_request(store, viewer, model, Wanted(OptimStep(learning_rate=0.1))).request.id
    row = store.exec(select(RequestRow).where(col(RequestRow.id) == future)).one()
    row.outcome = encode([failure(ModelId(model), secret, is_users=True)])
    row.done_s, row.body = time.time(), None
    return future


def everything(store: Session, of: Tenant, but: Tenant) -> list[str]:
    """All rows of a tenant, but for those that say what the other one has asked for."""
    rows = [
        f"{table.name} {tuple(row)}"
        for table in SQLModel.metadata.sorted_tables
        if table.name != "audit"
        for row in store.connection().execute(table.select())
    ]
    return sorted(row for row in rows if _is_of(of, row) and not _is_of(but, row))


def _is_of(tenant: Tenant, row: str) -> bool:
    return any(name in row for name in (tenant.session, tenant.run, tenant.model))
