"""Which weights, models and futures the names of Tinker's clients lead to, and for whom."""

import time
from pathlib import Path

import aiohttp
import pytest
from sqlmodel import Session, col, delete, select
from tests.support.access import ADMIN
from tests.support.gateway import Gateway, open_gateway
from tests.support.tinker import Json, Wire

from warren_gateway.access.caller import Viewer
from warren_gateway.access.key import Key
from warren_gateway.coordinator.clients import reading
from warren_gateway.coordinator.clients.reading import Seen
from warren_gateway.store.tables import Model, RequestRow, ServedRow, SnapshotRow
from warren_gateway.tinker.paths import key_of
from warren_schemas.codec.wire import encode
from warren_schemas.envelope import Envelope
from warren_schemas.episode import PolicyRef
from warren_schemas.http.trainable import CreateModel
from warren_schemas.ids import ModelId
from warren_schemas.training import OpDone, OpResult, Policy
from warren_schemas.users.access import CreateKey, KeyScope, ShareRun


@pytest.fixture
def ann(gateway: Gateway) -> Wire:
    return Wire(gateway.ann)


async def kinds_of_ops(gateway: Gateway) -> list[str]:
    rows = await gateway.store.transact(
        lambda store: list(store.exec(select(RequestRow).order_by(col(RequestRow.number))))
    )
    return [row.kind for row in rows]


async def model_of(gateway: Gateway, session: str, *snapshots: str) -> str:
    """One of Ann's, with these snapshots, each of a version of its own."""
    name = f"{session}:train:0"
    body = CreateModel(base_model="warren/tiny", name=name, key=key_of(name))
    made, _ = await gateway.services.models.create(Viewer("ann"), body)

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


async def test_who_looks_for_requests_sees_which_versions_are_served(gateway: Gateway) -> None:
    """Though nobody said that the run has changed: such a message may be lost."""
    body = CreateModel(base_model="warren/tiny", name="m", key="key-of-m")
    made, _ = await gateway.services.models.create(Viewer("ann"), body)

    def look(store: Session) -> Seen:
        served: Json = {"owner": "ann", "name": "n", "base_model": "warren/tiny", "since_s": 1.0}
        store.add(ServedRow(**served, run_id=made.run, version=7, url="file:///weights/7"))
        store.flush()
        model = store.exec(select(Model).where(col(Model.run_id) == made.run)).one()
        return reading.look(store, made.run, model.id, 1)

    assert (await gateway.store.transact(look)).served == ((7, None),)


async def test_what_is_to_be_downloaded_is_reached_by_its_own_kind_alone(
    gateway: Gateway, ann: Wire
) -> None:
    run = await model_of(gateway, await ann.session(), "external.w", "w")
    kept = f"/api/v1/training_runs/{run}/checkpoints"
    for path in ("sampler_weights/external.w", "something/w"):
        async with gateway.ann.delete(f"{kept}/{path}") as response:
            assert response.status == 404, path
    listed = (await ann.get(f"training_runs/{run}/checkpoints"))["checkpoints"]
    assert {row["checkpoint_id"] for row in listed} == {"external_weights/w", "sampler_weights/w"}
    named: Json = {"model_id": run, "seq_id": 1, "path": "external.w"}
    await ann.post("save_weights_for_sampler", named)
    assert await kinds_of_ops(gateway) == ["refused"]


async def test_a_model_belongs_to_whoever_owns_its_session(gateway: Gateway, ann: Wire) -> None:
    session = await ann.session()
    stolen: Json = {"base_model": "warren/tiny", "key": key_of(f"{session}:train:0")}
    async with gateway.bob.post("/v1/trainable", json=stolen) as response:
        assert response.status == 422 and "tinker:" in await response.text()
    made, _ = await gateway.services.models.create(
        Viewer("bob"), CreateModel.model_validate(stolen)
    )
    await gateway.services.sharing.share(Viewer("bob"), made.run, ShareRun())
    await ann.get(f"training_runs/{session}:train:0", status=404)


async def test_an_admin_is_told_the_sampler_of_another_users_unnamed_weights(
    gateway: Gateway, ann: Wire, tmp_path: Path
) -> None:
    """By a gateway that has just started, so that it looks into the store at once."""
    session, key = await ann.session(), Key.new()
    model = await model_of(gateway, session)
    published: Json = {"model_id": model, "seq_id": 1, "sampling_session_seq_id": 4}
    future = (await ann.post("save_weights_for_sampler", published))["request_id"]
    await gateway.store.transact(_publish)
    await gateway.services.keys.add(key, ADMIN.user)
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        open_gateway(gateway.store, gateway.broker, tmp_path / "again") as again,
        aiohttp.ClientSession(again.url, headers=headers) as admin,
    ):
        told = await Wire(admin).outcome(future)
        assert isinstance(told, dict)
        assert told["sampling_session_id"] == f"{session}:sample:4"
        await Wire(admin).get(f"samplers/{told['sampling_session_id']}", status=404)
        assert await Wire(again.ann).outcome(future) == told
    assert (await ann.get(f"samplers/{session}:sample:4"))["base_model"] == "warren/tiny"


def _publish(store: Session) -> None:
    """The only request is done."""
    row = store.exec(select(RequestRow)).one()
    policy = Policy(version=1, url="file:///weights/1", size_bytes=1)
    outcome = OpDone(version=1, policy=policy)
    model = ModelId(row.model_id)
    result = OpResult(envelope=Envelope(), model=model, epoch=1, number=1, outcome=outcome)
    row.outcome, row.done_s = encode([result]), time.time()


@pytest.mark.parametrize("path", ["samplers/a%00", "sessions/a%00", "training_runs/a%00:train:0"])
async def test_a_nul_is_nobodys_id(ann: Wire, path: str) -> None:
    await ann.get(path, status=404)


async def test_a_key_that_may_only_read_closes_no_model(gateway: Gateway, ann: Wire) -> None:
    session = await ann.session()
    run = await model_of(gateway, session)
    await ann.post("save_weights", {"model_id": run, "seq_id": 1, "path": "w"})
    reading = await gateway.services.keys.create(
        ADMIN, CreateKey(user="ann", scopes=(KeyScope.READ,))
    )
    headers = {"X-API-Key": reading.key}
    path = f"/api/v1/sessions/{session}/finish"
    async with gateway.nobody.post(path, json={}, headers=headers) as response:
        assert response.status == 200
    await ann.post("save_weights", {"model_id": run, "seq_id": 2, "path": "w"})
    await ann.post(f"sessions/{session}/finish")
    closed: Json = {"model_id": run, "seq_id": 3, "path": "w"}
    assert "the model is" in (await ann.post("save_weights", closed, status=400))["detail"]


async def test_a_future_is_told_to_whoever_may_ask_or_read(gateway: Gateway, ann: Wire) -> None:
    run = await model_of(gateway, await ann.session())
    future = (await ann.post("save_weights", {"model_id": run, "seq_id": 1, "path": "w"}))[
        "request_id"
    ]
    sampling = await gateway.services.keys.create(
        ADMIN, CreateKey(user="ann", scopes=(KeyScope.INFER,))
    )
    headers = {"X-API-Key": sampling.key}
    asked = {"request_id": future}
    async with gateway.nobody.post(
        "/api/v1/retrieve_future", json=asked, headers=headers
    ) as response:
        assert response.status == 403


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("optim_step", {"adam_params": {"beta2": 1.0}}),
        ("optim_step", {"adam_params": {"weight_decay": -0.1}}),
        ("save_weights", {"path": ""}),
        ("save_weights", {"path": "w", "ttl_seconds": 0}),
        ("save_weights_for_sampler", {"path": "w", "kind": "of-tomorrow"}),
        ("load_weights", {"path": ""}),
    ],
)
async def test_an_op_with_wrong_values_takes_its_place(
    gateway: Gateway, ann: Wire, path: str, wrong: Json
) -> None:
    run = await model_of(gateway, await ann.session())
    await ann.post(path, {"model_id": run, "seq_id": 1, **wrong})
    assert await kinds_of_ops(gateway) == ["refused"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "LoadNew.path: missing"),
        ({"model_id": "m", "path": "p"}, "OpAsked.seq_id: missing"),
        ({"session_id": "s", "model_seq_id": 0, "path": "p", "optimizer": 5}, "LoadNew.optimizer"),
    ],
)
async def test_what_loads_neither_into_a_model_nor_a_new_one_says_what_is_missing(
    ann: Wire, body: Json, told: str
) -> None:
    detail = (await ann.post("load_weights", body, status=422))["detail"]
    assert told in detail and detail.startswith("The body has")


async def test_a_sampler_that_moves_on_samples_from_what_its_model_has_come_to(
    gateway: Gateway, ann: Wire
) -> None:
    """And one that stays from what it was opened with."""
    session = await ann.session()
    name = await model_of(gateway, session)
    trained = await gateway.services.tinker.models.find(Viewer("ann"), name)
    opened = PolicyRef(
        model=trained.id, base_model="warren/tiny", min_version=3, url="file:///weights/3"
    )
    stays = opened.model_copy(update={"pinned": True})
    sessions = gateway.services.tinker.sessions
    moving, staying = [
        await sessions.open_sampler("ann", session, number, policy)
        for number, policy in enumerate((opened, stays))
    ]
    for version, comes_to in ((2, 3), (40, 40)):

        def publish(store: Session, at: int = version) -> None:
            model = store.get_one(Model, trained.id)
            model.live_version, model.live_url = at, f"file:///weights/{at}"

        await gateway.store.transact(publish)
        found = (await sessions.sampler("ann", moving.id)).policy
        assert (found.min_version, found.url) == (comes_to, f"file:///weights/{comes_to}")
        assert (await sessions.sampler("ann", staying.id)).policy == stays
