"""What Tinker's clients ask of their sessions, use, storage and downloads over HTTP."""

import hashlib
import io
import json
import tarfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import pytest_asyncio
from sqlmodel import Session, col, delete, select, update
from tests.support.gateway import Gateway, open_gateway
from tests.support.tinker import Json, Wire

from warren_broker.port import Broker
from warren_gateway.access.caller import Viewer
from warren_gateway.access.key import Key
from warren_gateway.settings import GatewayOptions
from warren_gateway.store.store import Store
from warren_gateway.store.tables import (
    Checkpoint,
    Model,
    Run,
    SnapshotRow,
    TinkerDownload,
    UsageRow,
)
from warren_gateway.tinker.paths import key_of
from warren_gateway.usage.counting import SampleUse, count_samples
from warren_schemas.events import RunState
from warren_schemas.files import SEAL
from warren_schemas.http.trainable import CreateModel

FILES = {"adapter.bin": b"weights" * 400, "config.json": b"{}"}
SIZE = sum(map(len, FILES.values()))


@pytest.fixture
def ann(gateway: Gateway) -> Wire:
    return Wire(gateway.ann)


@pytest.fixture
def bob(gateway: Gateway) -> Wire:
    return Wire(gateway.bob)


@pytest_asyncio.fixture
async def session(gateway: Gateway, ann: Wire, tmp_path: Path) -> str:
    """Of Ann's; its model has a checkpoint, a snapshot to be downloaded, and has used some tokens."""
    session = await ann.session()
    name = f"{session}:train:0"
    body = CreateModel(base_model="warren/tiny", name=name, key=key_of(name))
    made, _ = await gateway.services.models.create(Viewer("ann"), body)
    url = sealed(tmp_path / "saved")

    def keep(store: Session) -> None:
        model = store.exec(select(Model).where(col(Model.run_id) == made.run)).one()
        at: Json = {"model_id": model.id, "version": 1, "url": url, "size_bytes": SIZE}
        store.add(Checkpoint(**at, name="s1", op=1, step=0, created_s=time.time()))
        store.add(SnapshotRow(**at, name="external.out", created_s=time.time()))
        store.add(SnapshotRow(**at, name="w1", created_s=time.time()))
        store.add(SnapshotRow(**at, name="w0", created_s=1.0, expires_s=2.0))
        last: Json = {"op": 2, "step": 0, "created_s": time.time(), "is_automatic": True}
        store.add(Checkpoint(**at, name="auto", **last))
        day = int(time.time() // 86_400)
        store.add(UsageRow(run_id=made.run, day=day, owner="ann", n_tokens_trained=12))

    await gateway.store.transact(keep)
    return session


def sealed(folder: Path) -> str:
    """As a trainer leaves it."""
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in FILES.items()]
    (folder / SEAL).write_text("".join(lines))
    return str(folder)


def checkpoint(session: str, what: str) -> str:
    return f"training_runs/{session}:train:0/checkpoints/{what}"


async def fetched(gateway: Gateway, url: str) -> bytes:
    """By somebody who has no key."""
    parts = urlsplit(url)
    async with gateway.nobody.get(f"{parts.path}?{parts.query}") as response:
        assert response.status == 200, await response.text()
        return await response.read()


async def test_the_files_of_a_checkpoint_are_downloaded_without_a_key(
    gateway: Gateway, ann: Wire, session: str
) -> None:
    told = await ann.get(f"{checkpoint(session, 'external_weights/out')}/external_weights_urls")
    assert {n: await fetched(gateway, url) for n, url in told["urls"].items()} == FILES
    archive = await ann.get(f"{checkpoint(session, 'weights/s1')}/archive")
    with tarfile.open(fileobj=io.BytesIO(await fetched(gateway, archive["url"]))) as tar:
        assert {m.name: (tar.extractfile(m) or io.BytesIO()).read() for m in tar} == FILES
    place = urlsplit(str(archive["url"])).path
    for path in (f"{place.rpartition('/')[0]}/none", f"{place}?file=other"):
        async with gateway.nobody.get(path) as response:
            assert response.status == 404
    await gateway.store.transact(lambda s: s.exec(delete(TinkerDownload)))
    async with gateway.nobody.get(urlsplit(str(archive["url"])).path) as response:
        assert response.status == 404


async def test_a_download_ends_with_its_user(gateway: Gateway, ann: Wire, session: str) -> None:
    archive = await ann.get(f"{checkpoint(session, 'weights/s1')}/archive")
    await gateway.services.users.disable("ann")
    async with gateway.nobody.get(urlsplit(str(archive["url"])).path) as response:
        assert response.status == 404


async def test_a_download_ends_with_the_share_it_was_given_by(
    gateway: Gateway, ann: Wire, bob: Wire, session: str
) -> None:
    path = checkpoint(session, "sampler_weights/w1")
    await bob.get(f"{path}/archive", status=404)
    async with gateway.ann.post(f"/api/v1/{path}/publish") as response:
        assert response.status == 200
    urls = [(await who.get(f"{path}/archive"))["url"] for who in (ann, bob)]
    places = [urlsplit(str(url)).path for url in urls]
    statuses = list[int]()
    for shared in (True, False):
        if not shared:
            await gateway.ann.delete(f"/api/v1/{path}/publish")
        for place in places:
            async with gateway.nobody.get(place) as response:
                statuses.append(response.status)
    assert statuses == [200, 200, 200, 404]


@pytest.mark.parametrize("changed", [{"expires_s": 1.0}, {"url": "file:///another"}])
async def test_a_download_ends_with_what_it_is_of(
    gateway: Gateway, ann: Wire, session: str, changed: Json
) -> None:
    """Though what has expired is not deleted yet, and other names lead to the same files."""
    archive = await ann.get(f"{checkpoint(session, 'weights/s1')}/archive")
    await fetched(gateway, archive["url"])
    is_it = col(Checkpoint.name) == "s1"
    await gateway.store.transact(
        lambda store: store.exec(update(Checkpoint).where(is_it).values(**changed))
    )
    async with gateway.nobody.get(urlsplit(str(archive["url"])).path) as response:
        assert response.status == 404


async def test_what_was_saved_as_a_run_ended_is_listed_and_counted(
    gateway: Gateway, ann: Wire, session: str
) -> None:
    """Its client may have vanished. While the model lives such a checkpoint soon goes."""

    async def seen() -> tuple[set[str], int]:
        listed = (await ann.get(checkpoint(session, "").rstrip("/")))["checkpoints"]
        stored = (await ann.get("billing/usage/checkpoints/current"))["data"]
        return {one["checkpoint_id"] for one in listed}, stored[0]["checkpoint_count"]

    kept = {"weights/s1", "external_weights/out", "sampler_weights/w1"}
    assert await seen() == (kept, 3)

    def end(store: Session) -> None:
        store.exec(select(Run)).one().state = RunState.COMPLETED

    await gateway.store.transact(end)
    assert await seen() == (kept | {"weights/auto"}, 4)


async def test_urls_begin_with_the_public_one(store: Store, broker: Broker, tmp_path: Path) -> None:
    public = "https://warren.example.org/tinker"
    options = GatewayOptions(public_url=public)
    async with open_gateway(store, broker, tmp_path / "runs", options=options) as gateway:
        ann = Wire(gateway.ann)
        told = await ann.get(f"sessions/{await ann.session()}/trace_export")
    assert told["url"].startswith(f"{public}/api/v1/downloads/")


async def test_what_is_saved_to_be_downloaded_has_names_of_its_own(ann: Wire, session: str) -> None:
    told = await ann.get(f"training_runs/{session}:train:0/checkpoints")
    ids = {row["checkpoint_id"]: row["checkpoint_type"] for row in told["checkpoints"]}
    assert ids == {
        "weights/s1": "training",
        "external_weights/out": "external",
        "sampler_weights/w1": "sampler",
    }
    async with ann.http.delete(
        f"/api/v1/{checkpoint(session, 'external_weights/out')}"
    ) as response:
        assert response.status == 200
    left = await ann.get(f"training_runs/{session}:train:0/checkpoints")
    assert len(left["checkpoints"]) == 2


async def test_a_timeline_has_the_ops(gateway: Gateway, ann: Wire, session: str) -> None:
    saving: Json = {"model_id": f"{session}:train:0", "seq_id": 1, "path": "later"}
    await ann.post("save_weights", saving)
    told = await ann.get(f"sessions/{session}/trace_export")
    events = json.loads(await fetched(gateway, told["url"]))["traceEvents"]
    assert [e["name"] for e in events if e["ph"] == "X"] == ["save_state (no outcome yet)"]
    await ann.post("optim_step", {"model_id": saving["model_id"], "seq_id": 2, "adam_params": {}})
    spans = await gateway.services.tinker.models.spans("ann", session)
    assert [span.kind for span in spans] == ["save_state", "optim_step"]
    assert await gateway.services.tinker.models.spans("ann", session, most=1) == spans[1:]


async def test_sessions_are_found_by_what_is_said_of_them(
    gateway: Gateway, ann: Wire, session: str
) -> None:
    named: Json = {"display_name": "Nightly run 7", "user_metadata": {"of": "ann"}}
    other = (await ann.post("create_session", named))["session_id"]
    async with ann.http.put(f"/api/v1/sessions/{other}/project", json={"project_id": "p"}) as done:
        assert done.status == 200
    await ann.post(f"sessions/{other}/finish", {"reason": {"type": "errored"}})

    async def found(**asked: object) -> list[str]:
        return [s["session_id"] for s in (await ann.post("sessions/search", asked))["sessions"]]

    assert await found() == [other, session]
    assert await found(display_name="RUN night") == [other]
    assert await found(display_name="run", session_id=session) == [other, session]
    assert await found(project_ids=["p"]) == await found(user_metadata={"of": "ann"}) == [other]
    assert await found(statuses=[{"type": "active"}]) == [session]
    assert await found(statuses=[{"type": "client_finished", "reasons": ["success"]}]) == []
    assert await found(owner={"type": "user", "owner_urns": ["warren:user:bob"]}) == []
    first = await ann.post("sessions/search", {"limit": 1})
    assert await found(limit=1, cursor=first["next_cursor"]) == [session]
    kept = (await ann.post("sessions/search", {"session_id": session}))["sessions"][0]
    assert (kept["checkpoints_count"], kept["checkpoint_storage_bytes"]) == (3, 3 * SIZE)


async def test_use_and_storage_are_told_by_session_and_project(ann: Wire, session: str) -> None:
    async with ann.http.put(f"/api/v1/sessions/{session}/project", json={"project_id": "p"}):
        pass
    since = "starting_on=2026-01-01T00:00:00Z&ending_before=2126-01-01T00:00:00Z"
    used = (await ann.get(f"billing/usage/events?{since}"))["data"]
    assert [(u["session_id"], u["project_id"], u["event_info"]) for u in used] == [
        (session, "p", {"type": "training", "token_count": 12})
    ]
    stored = (await ann.get("billing/usage/checkpoints/current?project_id=p"))["data"]
    assert [(s["checkpoint_count"], s["size_bytes"]) for s in stored] == [(3, 3 * SIZE)]
    assert (await ann.get("billing/usage/checkpoints/current?project_id=q"))["data"] == []
    backwards = "starting_on=2026-01-02T00:00:00Z&ending_before=2026-01-01T00:00:00Z"
    await ann.get(f"billing/usage/events?{backwards}", status=400)


async def test_sampling_from_another_s_run_is_used_by_who_asks(
    gateway: Gateway, ann: Wire, bob: Wire, session: str
) -> None:
    theirs = await bob.session()

    def count(store: Session) -> str:
        model = store.exec(select(Model)).one()
        used = SampleUse(model.id, "warren/tiny", 4, 6, 0.5)
        for uses in ([used], [used, used]):
            count_samples(store, session_id=theirs, owner="bob", uses=uses, now_s=time.time())
        return model.run_id

    run = await gateway.store.transact(count)
    since = "starting_on=2026-01-01T00:00:00Z&ending_before=2126-01-01T00:00:00Z"
    used = (await bob.get(f"billing/usage/events?{since}"))["data"]
    assert [(u["session_id"], u["event_info"]["token_count"]) for u in used] == [
        (theirs, 12),
        (theirs, 18),
    ]
    for http, user, n_trained, n_sampled in (
        (gateway.bob, "bob", 0, 18),
        (gateway.ann, "ann", 12, 0),
    ):
        async with http.get("/v1/usage?by=run") as response:
            (row,) = (await response.json())["usage"]
        assert (row["run"], row["user"]) == (run, user)
        assert (row["name"] is None) is (user == "bob")
        assert bool(row["stored_bytes"]) is (user == "ann")
        assert (row["n_tokens_trained"], row["n_tokens_sampled"]) == (n_trained, n_sampled)


async def test_another_tenant_sees_and_downloads_nothing_of_it(bob: Wire, session: str) -> None:
    for what in ("archive", "external_weights_urls"):
        await bob.get(f"{checkpoint(session, 'weights/s1')}/{what}", status=404)
    await bob.get(f"sessions/{session}/trace_export", status=404)
    assert (await bob.post("sessions/search", {"owner": {"type": "accessible"}}))["sessions"] == []
    assert (await bob.get("billing/usage/checkpoints/current"))["data"] == []
    await bob.get("audit", status=403)


async def test_an_admin_sees_what_was_done_on_a_day(gateway: Gateway, ann: Wire) -> None:
    session = await ann.session()
    async with ann.http.put(f"/api/v1/sessions/{session}/project", json={"project_id": "p"}):
        pass
    key = Key.new()
    await gateway.services.keys.add(key, "local")
    headers = {"X-API-Key": f"tml-{key}"}
    for query, actions in (
        ("event_type=projects", ["assign_project"]),
        ("event_type=teams", []),
        ("day=2026-01-01", []),
    ):
        async with gateway.nobody.get(f"/api/v1/audit?{query}", headers=headers) as response:
            assert [entry["event"] for entry in (await response.json())["entries"]] == actions
    async with gateway.nobody.get("/api/v1/audit?day=2026-99-99", headers=headers) as response:
        assert response.status == 400
