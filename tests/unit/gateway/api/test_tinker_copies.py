"""Copies of checkpoints: whole or not there, and nothing that becomes of one side reaches the other."""

import asyncio
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlmodel import Session, col, select, update
from tests.support.gateway import Gateway
from tests.support.sealed_folders import write_text
from tests.support.tinker import Json, Wire

from warren_broker.topology import FILE_CLEANUP
from warren_gateway.access.caller import Viewer
from warren_gateway.store.tables import Checkpoint, Model, OutboxRow, Run, SnapshotRow
from warren_gateway.tinker.paths import key_of
from warren_gateway.trainable.copied_rows import CopyAsked, insert_copy
from warren_gateway.trainable.copies import Copies
from warren_gateway.trainable.saved import delete_expired
from warren_gateway.usage.stored_bytes import GIB, stored_by_run
from warren_gpu_worker.atomic_folder import open_folder
from warren_schemas.codec.wire import decode
from warren_schemas.http.trainable import CreateModel, SavedName
from warren_schemas.ids import RunId
from warren_schemas.training import DeleteModel
from warren_schemas.users.access import ShareRun
from warren_schemas.users.limits import Limits

TEXT, SIZE = "of the weights", 14
KINDS = ["weights", "sampler_weights", "external_weights"]


class Trained:
    """A model of Ann's that keeps one thing of each kind."""

    def __init__(self, gateway: Gateway, session: str, model: str, root: Path) -> None:
        self.gateway = gateway
        self.session = session
        self.name = f"{session}:train:0"
        self.model = model
        self.root = root

    @property
    def states(self) -> Path:
        return self.root / self.model / "states" / "op-00000001"

    def path(self, kind: str) -> str:
        return f"tinker://{self.name}/{kind}/w"

    def asked(self, kind: str = "weights", number: int = 1) -> Json:
        of = {"session_id": self.session, "model_seq_id": number}
        return {**of, "source_path": self.path(kind), "type": "copy_weights"}


@pytest.fixture
def ann(gateway: Gateway) -> Wire:
    return Wire(gateway.ann)


@pytest.fixture
async def trained(gateway: Gateway, ann: Wire, tmp_path: Path) -> Trained:
    session = await ann.session()
    name = f"{session}:train:0"
    body = CreateModel(
        base_model="warren/tiny", name=name, key=key_of(name), metadata={"renderer": "plain"}
    )
    made, _ = await gateway.services.models.create(Viewer("ann"), body)
    trained = Trained(gateway, session, made.id, tmp_path)
    policies = tmp_path / made.id / "policies" / "v1"
    write_text(TEXT, f"{trained.states}")
    write_text(TEXT, f"{policies}")

    def keep(store: Session) -> None:
        at: Json = {"model_id": made.id, "version": 1, "size_bytes": SIZE, "created_s": 1.0}
        at |= {"metadata_": {"note": "mine"}}
        store.add(Checkpoint(**at, url=f"{trained.states}", name="w", op=1, step=0))
        store.add(SnapshotRow(**at, url=f"{policies}", name="w"))
        store.add(SnapshotRow(**at, url=f"{policies}", name="external.w"))

    await gateway.store.transact(keep)
    return trained


async def kept(ann: Wire, run: str) -> list[Json]:
    return (await ann.get(f"training_runs/{run}/checkpoints"))["checkpoints"]


async def rows_of(gateway: Gateway, run: str) -> Sequence[Checkpoint | SnapshotRow]:
    def read(store: Session) -> list[Checkpoint | SnapshotRow]:
        models = select(Model.id).join(Run, col(Run.id) == col(Model.run_id))
        model = store.exec(models.where(col(Run.idempotency_key) == key_of(run))).one()
        return [
            row
            for table in (Checkpoint, SnapshotRow)
            for row in store.exec(select(table).where(col(table.model_id) == model))
        ]

    return await gateway.store.read(read)


def text_at(url: str) -> str:
    with open_folder(url) as folder:
        return (folder / "text").read_text()


async def deleted(gateway: Gateway) -> list[str]:
    """Models whose files are to be deleted."""

    def read(store: Session) -> list[str]:
        posted = select(OutboxRow.body).where(col(OutboxRow.address) == FILE_CLEANUP.name)
        items = [item for body in store.exec(posted) for item in decode(body).items]
        return [item.model for item in items if isinstance(item, DeleteModel)]

    return await gateway.store.read(read)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_copy_is_a_run_that_keeps_the_same_and_shares_nothing(
    gateway: Gateway, ann: Wire, trained: Trained, kind: str
) -> None:
    copy = f"{trained.session}:train:1"
    told = await ann.post("copy_weights", trained.asked(kind))
    assert told == {"tinker_path": f"tinker://{copy}/{kind}/w"}
    (row,) = await rows_of(gateway, copy)
    assert (row.version, row.size_bytes, row.metadata_) == (1, SIZE, {"note": "mine"})
    shutil.rmtree(trained.root / trained.model)
    assert text_at(row.url) == TEXT
    assert Path(row.url).is_relative_to(trained.root / row.model_id), "where it goes with its run"
    (view,) = await kept(ann, copy)
    assert (view["tinker_path"], view["expires_at"]) == (told["tinker_path"], None)
    shown = await ann.get(f"training_runs/{copy}")
    assert (shown["base_model"], shown["user_metadata"]) == ("warren/tiny", {"renderer": "plain"})
    info = await ann.post("weights_info", {"tinker_path": told["tinker_path"]})
    assert info["lora_rank"] == 16


async def test_a_copy_is_trained_on_and_sampled_from_like_what_it_was_made_of(
    gateway: Gateway, ann: Wire, trained: Trained
) -> None:
    state = (await ann.post("copy_weights", trained.asked("weights")))["tinker_path"]
    weights = (await ann.post("copy_weights", trained.asked("sampler_weights", 2)))["tinker_path"]
    load: Json = {"session_id": trained.session, "model_seq_id": 3, "path": state}
    assert (await ann.post("load_weights", load))["model_id"] == f"{trained.session}:train:3"
    sampler = await ann.sampler(trained.session, 0, model_path=weights)
    opened = await gateway.services.tinker.sessions.sampler("ann", sampler)
    (row,) = await rows_of(gateway, f"{trained.session}:train:2")
    assert (opened.policy.url, opened.policy.model) == (row.url, row.model_id)
    op: Json = {"model_id": f"{trained.session}:train:1", "seq_id": 1, "path": "more"}
    assert "the model is completed" in (await ann.post("save_weights", op, status=400))["detail"]


async def test_the_same_request_makes_one_copy(
    gateway: Gateway, ann: Wire, trained: Trained
) -> None:
    asked = trained.asked()
    at_once = await asyncio.gather(*(ann.post("copy_weights", asked) for _ in range(5)))
    assert len({each["tinker_path"] for each in at_once}) == 1
    (row,) = await rows_of(gateway, f"{trained.session}:train:1")
    assert len(list(Path(row.url).parent.iterdir())) == 1
    other = trained.asked("sampler_weights")
    told = await ann.post("copy_weights", other, status=400)
    assert "was made before, of something else" in told["detail"]
    in_place = {**asked, "model_seq_id": 0}
    assert "something else" in (await ann.post("copy_weights", in_place, status=400))["detail"]


async def test_of_two_gateways_that_are_asked_at_once_one_makes_it(
    gateway: Gateway, trained: Trained
) -> None:
    key = key_of(f"{trained.session}:train:1")
    asked = CopyAsked(trained.model, SavedName(kind="checkpoint", name="w"), key)
    gateways = [Copies(gateway.store, lambda: None) for _ in range(3)]
    await asyncio.gather(*(each.copy(Viewer("ann"), asked) for each in gateways))
    (row,) = await rows_of(gateway, f"{trained.session}:train:1")
    assert [each.name for each in Path(row.url).parent.iterdir()] == [Path(row.url).name]
    assert text_at(row.url) == TEXT


async def test_what_a_gateway_that_died_has_begun_is_no_checkpoint_and_is_gone_on_with(
    gateway: Gateway, ann: Wire, trained: Trained
) -> None:
    copy = f"{trained.session}:train:1"
    asked = CopyAsked(trained.model, SavedName(kind="checkpoint", name="w"), key_of(copy))

    def begin(store: Session) -> str:
        model = store.exec(select(Model).where(col(Model.id) == trained.model)).one()
        return insert_copy(store, "ann", model, asked)[1].id

    model = await gateway.store.transact(begin)
    half = trained.root / model / "states" / "copy_half"
    half.mkdir(parents=True)
    (half / "text").write_text("of th")
    assert await kept(ann, copy) == []
    async with gateway.ann.get("/v1/runs") as response:
        shown = next(run for run in (await response.json())["runs"] if "copy of" in run["name"])
    assert (shown["state"], "ask for it again" in shown["error"]) == ("failed", True)
    await ann.post("copy_weights", trained.asked())
    (row,) = await rows_of(gateway, copy)
    assert (row.model_id, text_at(row.url)) == (model, TEXT)


async def test_what_is_damaged_is_not_copied_and_leaves_nothing(
    gateway: Gateway, ann: Wire, trained: Trained
) -> None:
    (trained.states / "text").write_text("of the w3ights")
    told = await ann.post("copy_weights", trained.asked(), status=400)
    assert "is not what was written" in told["detail"]
    await ann.get(f"training_runs/{trained.session}:train:1", status=404)
    assert len(await deleted(gateway)) == 1
    others = [each for each in trained.root.iterdir() if each.name not in (trained.model, "runs")]
    assert not [file for each in others for file in each.rglob("text")]
    write_text(TEXT, f"{trained.states}")
    await ann.post("copy_weights", trained.asked())


async def test_what_is_gone_is_not_copied(ann: Wire, trained: Trained) -> None:
    shutil.rmtree(trained.states)
    told = await ann.post("copy_weights", trained.asked(), status=400)
    assert "can't be read from here" in told["detail"]
    for path in ("weights/none", "sampler_weights/none"):
        missing = {**trained.asked(), "source_path": f"tinker://{trained.name}/{path}"}
        assert "no checkpoint" in (await ann.post("copy_weights", missing, status=404))["detail"]


async def test_each_has_a_time_to_live_of_its_own(
    gateway: Gateway, ann: Wire, trained: Trained
) -> None:
    await gateway.store.transact(
        lambda store: store.exec(update(Checkpoint).values(expires_s=time.time() + 5000))
    )
    await ann.post("copy_weights", trained.asked())
    await ann.post("copy_weights", trained.asked(number=2) | {"ttl_seconds": 60})
    forever, soon = [(await kept(ann, f"{trained.session}:train:{number}"))[0] for number in (1, 2)]
    assert forever["expires_at"] is None and soon["expires_at"] is not None
    (row,) = await rows_of(gateway, f"{trained.session}:train:2")
    await gateway.store.transact(lambda store: delete_expired(store, time.time() + 100))
    assert await deleted(gateway) == [row.model_id]
    assert await kept(ann, f"{trained.session}:train:2") == []
    assert len(await kept(ann, trained.name)) == 3


async def test_a_deleted_copy_takes_its_files_alone_and_is_not_made_again(
    gateway: Gateway, ann: Wire, trained: Trained
) -> None:
    copy = f"{trained.session}:train:1"
    await ann.post("copy_weights", trained.asked())
    (row,) = await rows_of(gateway, copy)
    async with gateway.ann.delete(f"/api/v1/training_runs/{copy}/checkpoints/weights/w") as told:
        assert told.status == 200
    assert await deleted(gateway) == [row.model_id]
    assert len(await kept(ann, trained.name)) == 3
    assert text_at(f"{trained.states}") == TEXT
    await ann.post("copy_weights", trained.asked(), status=404)


async def test_what_is_kept_of_a_model_that_goes_on_goes_with_its_next_checkpoint(
    gateway: Gateway, ann: Wire, trained: Trained
) -> None:
    for kind in KINDS:
        path = f"/api/v1/training_runs/{trained.name}/checkpoints/{kind}/w"
        async with gateway.ann.delete(path) as told:
            assert told.status == 200
    assert await deleted(gateway) == []


async def test_a_copy_counts_by_itself(gateway: Gateway, ann: Wire, trained: Trained) -> None:
    await ann.post("copy_weights", trained.asked())
    stored = await gateway.store.read(lambda store: stored_by_run(store, "ann"))
    assert sorted(stored.values()) == [SIZE, 2 * SIZE], "a version that has two names is there once"
    await gateway.services.user_limits.change("ann", Limits(stored_gib=3.5 * SIZE / GIB))
    told = await ann.post("copy_weights", trained.asked(number=2), status=400)
    assert "you would store" in told["detail"]
    await ann.get(f"training_runs/{trained.session}:train:2", status=404)


async def test_what_is_published_is_copied_by_others_and_stays_theirs(
    gateway: Gateway, ann: Wire, trained: Trained
) -> None:
    bob = Wire(gateway.bob)
    asked = trained.asked() | {"session_id": await bob.session()}
    await bob.post("copy_weights", asked, status=404)
    published = f"training_runs/{trained.name}/checkpoints/weights/w/publish"
    await ann.post(published)
    path = (await bob.post("copy_weights", asked))["tinker_path"]
    async with gateway.ann.delete(f"/api/v1/{published}") as told:
        assert told.status == 200
    assert (await bob.post("weights_info", {"tinker_path": path}))["base_model"] == "warren/tiny"
    await ann.post("weights_info", {"tinker_path": path}, status=404)
    await ann.post("copy_weights", asked, status=404)


async def test_a_copy_for_a_project_has_a_session_of_its_own(
    gateway: Gateway, ann: Wire, trained: Trained
) -> None:
    asked = {"source_path": trained.path("weights"), "destination_project_id": "archive"}

    async def copied(key: str, http: Wire = ann) -> str:
        headers = {"X-Idempotency-Key": key}
        async with http.http.post("/api/v1/copy_weights", json=asked, headers=headers) as response:
            assert response.status == 200, await response.text()
            return (await response.json())["tinker_path"]

    first, again, other = await copied("one"), await copied("one"), await copied("two")
    assert first == again != other
    session = first.removeprefix("tinker://").partition(":")[0]
    found = await ann.post("sessions/search", {"project_ids": ["archive"]})
    assert session in {one["session_id"] for one in found["sessions"]}
    await gateway.services.sharing.share(Viewer("ann"), await run_of(gateway, trained), ShareRun())
    bobs = await copied("one", Wire(gateway.bob))
    assert bobs.partition(":train")[0] != first.partition(":train")[0], "keys are an owner's own"
    nowhere = await ann.post("copy_weights", {"source_path": asked["source_path"]}, status=400)
    assert "Tell destination_project_id" in nowhere["detail"]
    token = trained.asked() | {"weights_access_token": "tml-of-another"}
    assert "publish it" in (await ann.post("copy_weights", token, status=400))["detail"]


async def run_of(gateway: Gateway, trained: Trained) -> RunId:
    found = await gateway.services.tinker.models.find(Viewer("ann"), trained.name)
    return RunId(found.run.id)
