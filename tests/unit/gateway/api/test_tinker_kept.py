"""Which weights a path of Tinker's clients leads to."""

import time

import pytest
from sqlmodel import Session, col, delete, select
from tests.support.gateway import Gateway
from tests.support.tinker import Json, Wire

from warren_gateway.access.caller import Viewer
from warren_gateway.store.tables import Model, SnapshotRow
from warren_gateway.tinker.paths import key_of
from warren_schemas.http.trainable import CreateModel


@pytest.fixture
def ann(gateway: Gateway) -> Wire:
    return Wire(gateway.ann)


async def model_of(gateway: Gateway, session: str, *snapshots: str) -> str:
    """One of Ann's, with these snapshots, each of a version of its own."""
    name = f"{session}:train:0"
    body = CreateModel(base_model="warren/tiny", name=name, key=key_of(name))
    made, _ = await gateway.parts.models.create(Viewer("ann"), body)

    def keep(store: Session) -> None:
        model = store.exec(select(Model).where(col(Model.run_id) == made.run)).one()
        for n, snapshot in enumerate(snapshots):
            at: Json = {"model_id": model.id, "version": 100 + n, "size_bytes": 1}
            url = f"file:///weights/{snapshot}"
            store.add(SnapshotRow(**at, url=url, name=snapshot, created_s=time.time()))

    await gateway.store.transact(keep)
    return name


async def test_a_number_that_no_snapshot_is_called_is_no_version(
    gateway: Gateway, ann: Wire
) -> None:
    session = await ann.session()
    path = f"tinker://{await model_of(gateway, session, 'w', '7')}/sampler_weights"
    await ann.sampler(session, 0, model_path=f"{path}/7")
    wanted: Json = {"session_id": session, "sampling_session_seq_id": 1}
    for name in ("100", "101", "8"):
        told = await ann.post(
            "create_sampling_session", {**wanted, "model_path": f"{path}/{name}"}, status=404
        )
        assert f"no checkpoint {path}/{name}" in told["detail"]
    await gateway.store.transact(
        lambda store: store.exec(delete(SnapshotRow).where(col(SnapshotRow.name) == "7"))
    )
    await ann.post("create_sampling_session", {**wanted, "model_path": f"{path}/7"}, status=404)
