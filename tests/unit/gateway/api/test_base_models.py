"""Base models that users bring: uploaded, named, used, shared and deleted, through the SDK and the command against the real app."""

import asyncio
import hashlib
import io
import json
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from sqlmodel import Session, SQLModel, select
from tests.support.adapters import packed, write_adapter
from tests.support.gateway import CONFIG as RUN_CONFIG
from tests.support.gateway import Gateway, heartbeat
from tests.support.openai_asking import chat
from tests.support.rote_sampler import post
from tests.support.uploaded_models import CONFIG, tensors_of, write_base_model, write_shards

import warren
from warren.cli.commands.models import base_models as commands
from warren.cli.options import Gateway as GatewayOption
from warren_gateway.access.caller import Viewer
from warren_gateway.base_models.deleting import delete_versions
from warren_gateway.base_models.service import BaseModels
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.store.tables import BaseModelRow, DatasetUploadRow, Model, Run
from warren_schemas.base_models.names import is_seal_of
from warren_schemas.control import WorkerRole
from warren_schemas.events import RunState


@pytest_asyncio.fixture
async def bob(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    key = gateway.bob.headers["Authorization"].removeprefix("Bearer ")
    async with warren.connect(gateway.url, key, retry_s=2.0) as client:
        yield client


RowT = TypeVar("RowT", bound=SQLModel)


async def rows(gateway: Gateway, table: type[RowT]) -> list[RowT]:
    return await gateway.store.transact(lambda session: list(session.exec(select(table))))


def config(base: str) -> dict[str, Any]:
    return {**RUN_CONFIG, "model": {"base": base}}


def folders(tmp_path: Path) -> list[Path]:
    return [one for one in (tmp_path / "runs" / "base-models").glob("*") if any(one.iterdir())]


async def test_what_was_uploaded_has_a_name_and_versions(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    view = await client.base_models.upload(write_base_model(tmp_path / "a"), "mine")
    assert (view.owner, view.name, view.architecture) == ("ann", "mine", "Qwen3ForCausalLM")
    again = await client.base_models.upload(write_base_model(tmp_path / "b"), "mine")
    newer = await client.base_models.upload(write_base_model(tmp_path / "c", value=0.1), "mine")
    assert view == again and newer.base_model != view.base_model
    assert await client.base_models.get("mine") == newer
    assert await client.base_models.get(f"@mine@{view.digest[:8]}") == view
    assert await client.base_models.all() == (newer, view)
    (folder, _) = sorted(folders(tmp_path), key=lambda one: view.base_model not in str(one))
    folder = tmp_path / "runs" / "base-models" / view.base_model.removeprefix("warren/")
    seal = (folder / "SHA256SUMS").read_bytes()
    assert is_seal_of(view.base_model, seal) and hashlib.sha256(seal).hexdigest() == view.digest
    for line in seal.decode().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert await client.base_models.delete(f"mine@{view.digest[:8]}") == (view.reference,)
    assert await client.base_models.all() == (newer,)
    assert not folder.exists() and await rows(gateway, DatasetUploadRow) == []


async def test_weights_come_in_several_files(client: warren.Client, tmp_path: Path) -> None:
    view = await client.base_models.upload(write_shards(tmp_path / "a"), "mine")
    whole = await client.base_models.upload(write_base_model(tmp_path / "b"), "whole")
    assert view.n_parameters == whole.n_parameters


async def test_it_is_downloaded_as_it_was_uploaded_by_those_who_may_use_it(
    client: warren.Client, bob: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    folder = write_shards(tmp_path / "a")
    view = await client.base_models.upload(folder, "mine")
    copied = await client.base_models.download("@mine", tmp_path / "copy")
    assert copied.version == view.digest
    names = sorted(file.name for file in copied.files)
    assert names == sorted(path.name for path in folder.iterdir())
    for name in names:
        assert (tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes()
    assert (await client.base_models.upload(tmp_path / "copy", "again")).digest == view.digest

    weights = next(name for name in names if name.endswith(".safetensors"))
    query = {"base_model": view.reference, "name": weights, "offset": "100"}
    async with gateway.ann.get("/v1/base-models/file", params=query) as response:
        assert await response.read() == (folder / weights).read_bytes()[100:]
    for wrong in ("../x", "SHA256SUMS", ""):
        other = {**query, "name": wrong}
        async with gateway.ann.get("/v1/base-models/file", params=other) as response:
            assert response.status == 404
            assert "it has: config.json" in (await response.json())["message"]
    with pytest.raises(warren.NotFound):
        await bob.base_models.download(view.reference, tmp_path / "theirs")
    await client.base_models.share("mine", "bob")
    assert await bob.base_models.download("ann/mine", tmp_path / "theirs") == copied
    await client.base_models.unshare("mine", "bob")
    with pytest.raises(warren.NotFound):
        await bob.base_models.download(view.reference, tmp_path / "again")


async def test_a_download_goes_on_where_it_was_cut_off_and_checks_what_comes(
    client: warren.Client, tmp_path: Path
) -> None:
    folder = write_base_model(tmp_path / "a")
    view = await client.base_models.upload(folder, "mine")
    stored = tmp_path / "runs" / "base-models" / view.base_model.removeprefix("warren/")
    weights = (stored / "model.safetensors").read_bytes()
    (stored / "model.safetensors").write_bytes(weights[:-1] + b"!")
    with pytest.raises(warren.WarrenError, match="SHA-256"):
        await client.base_models.download("mine", tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    (stored / "model.safetensors").write_bytes(weights)
    await client.base_models.download("mine", tmp_path / "copy")
    assert (tmp_path / "copy" / "model.safetensors").read_bytes() == weights


async def put(gateway: Gateway, files: dict[str, bytes]) -> tuple[int, dict[str, Any]]:
    """By a client that checks nothing."""
    listed: list[dict[str, Any]] = []
    for name, data in files.items():
        sha256 = hashlib.sha256(data).hexdigest()
        where = f"/v1/base-models/upload?sha256={sha256}"
        async with gateway.ann.post(where, data=io.BytesIO(data)) as response:
            assert response.status == 200, await response.text()
        listed.append({"name": name, "sha256": sha256, "size_bytes": len(data)})
    return await post(gateway.ann, "/v1/base-models", {"name": "mine", "files": listed})


def right() -> dict[str, bytes]:
    return {
        "config.json": json.dumps(CONFIG).encode(),
        "tokenizer.json": b'{"version": "1.0"}',
        "model.safetensors": packed(tensors_of(CONFIG)),
    }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"pytorch_model.bin": b"\x80\x04K"}, "pytorch_model.bin: pickled weights"),
        ({"modeling.py": b"import os"}, "modeling.py: code"),
        ({"../config.json": b"{}"}, "../config.json: a base model has no such file"),
        ({"config.json": b'{"auto_map": {}}'}, "config.json: auto_map: code"),
        ({"tokenizer_config.json": b'{"auto_map": 1}'}, "tokenizer_config.json: auto_map: code"),
        ({"model.safetensors": b"\x80\x04K\x00." * 9}, "pickled files"),
        ({"model.safetensors": packed(tensors_of(CONFIG))[:-4]}, "is the file whole?"),
        ({"config.json": json.dumps({**CONFIG, "vocab_size": 8}).encode()}, "by config.json"),
        ({"config.json": b"[" * 2**20 + b"["}, "config.json has 1048577 bytes"),
        ({"tokenizer_config.json": b'{"version": "1.0"}'}, "two files have the same content"),
    ],
)
async def test_the_gateway_checks_by_itself(
    gateway: Gateway, tmp_path: Path, changes: dict[str, bytes], reason: str
) -> None:
    status, told = await put(gateway, right() | changes)
    assert (status, told["code"]) == (422, "wrong_base_model")
    assert reason in told["message"]
    assert await rows(gateway, BaseModelRow) == [] and folders(tmp_path) == []


async def test_files_that_never_came_are_told(gateway: Gateway, tmp_path: Path) -> None:
    files = [
        {"name": name, "sha256": str(number) * 64, "size_bytes": 5}
        for number, name in enumerate(right())
    ]
    wanted = {"name": "mine", "files": files}
    status, told = await post(gateway.ann, "/v1/base-models", wanted)
    assert (status, "has 0 bytes" in told["message"]) == (422, True)
    assert await rows(gateway, BaseModelRow) == [] and folders(tmp_path) == []


async def test_two_that_upload_the_same_make_one_version(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    folder = write_base_model(tmp_path / "a")
    one, other = await asyncio.gather(
        *(client.base_models.upload(folder, "mine", reconnect_s=60.0) for _ in range(2))
    )
    assert one == other and len(await rows(gateway, BaseModelRow)) == 1


@pytest.mark.parametrize("budgets", [BudgetOptions(stored_gib_per_owner=1e-5)])
async def test_no_more_is_stored_than_the_owner_may(client: warren.Client, tmp_path: Path) -> None:
    await client.base_models.upload(write_base_model(tmp_path / "a"), "mine")
    with pytest.raises(warren.GatewayBusy, match="base-models rm NAME"):
        await client.base_models.upload(write_base_model(tmp_path / "b", value=0.1), "other")


@pytest.mark.parametrize(
    ("most_gib", "reason"), [(0.0, "takes no base models"), (1e-6, "this gateway takes")]
)
async def test_an_operator_says_how_large_one_may_be(
    client: warren.Client, gateway: Gateway, tmp_path: Path, most_gib: float, reason: str
) -> None:
    uploads, url = gateway.services.datasets.uploads, f"file://{tmp_path}/none"
    small = BaseModels(gateway.store, url, uploads, most_gib=most_gib)
    object.__setattr__(gateway.services, "base_models", small)
    with pytest.raises(warren.WarrenError, match=reason):
        await client.base_models.upload(write_base_model(tmp_path / "a"), "mine")


async def test_what_a_gateway_that_died_has_left_is_found_by_nobody_and_goes(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    await client.base_models.upload(write_base_model(tmp_path / "a"), "mine")
    gone = await gateway.store.transact(partial(delete_versions, Viewer("ann"), "mine"))
    with pytest.raises(warren.NotFound):
        await client.base_models.get("mine")
    (row,) = await rows(gateway, BaseModelRow)
    assert row.id in gone and row.size_bytes > 0, "its files are there, and count"
    await client.base_models.upload(write_base_model(tmp_path / "b", value=0.1), "new")
    assert [row.name for row in await rows(gateway, BaseModelRow)] == ["new"]
    assert len(folders(tmp_path)) == 1


async def test_a_run_uses_exactly_this_version_and_keeps_it(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    view = await client.base_models.upload(write_base_model(tmp_path / "a"), "mine")
    assert (await client.check(config("@mine"))).mistakes == ()
    run = await client.train(config("@mine"), idempotency_key="only-once")
    assert run.view.config is not None and run.view.config.model.base == view.base_model
    assert (await client.train(config("@mine"), idempotency_key="only-once")).id == run.id
    made = [await client.create_model("@mine", key="my-model") for _ in range(2)]
    assert made[0].id == made[1].id
    assert {row.base_model for row in await rows(gateway, Model)} == {view.base_model}
    await client.base_models.upload(write_base_model(tmp_path / "b", value=0.1), "mine")
    with pytest.raises(warren.GatewayError, match="and is not over"):
        await client.base_models.delete(view.reference)

    def end(session: Session) -> None:
        for row in session.exec(select(Run)):
            row.state = RunState.COMPLETED

    await gateway.store.transact(end)
    assert await client.base_models.delete(view.reference) == (view.reference,)


async def reaching(gateway: Gateway, client: warren.Client, tmp_path: Path, base: str) -> list[str]:
    """Each way to use a base model that let this one be used."""
    session = gateway.bob
    got: list[str] = []
    ways = {
        "train": client.train(config(base)),
        "create_model": client.create_model(base),
        "serve": client.serve("mine", model=base),
        "evaluate": client.evaluate(model=base, environments=["guess"]),
        "adapter": client.adapters.upload(tmp_path / "lora", "poet", base_model=base),
    }
    for way, asked in ways.items():
        try:
            await asked
        except (warren.ConfigurationError, warren.NotFound):
            continue
        got.append(way)
    if (await client.check(config(base))).mistakes == ():
        got.append("check")
    if (await chat(session, model=base))[0] != 404:
        got.append("chat")
    return got


async def test_others_have_no_part_in_it_unless_it_is_shared_with_them(
    client: warren.Client, bob: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    view = await client.base_models.upload(write_base_model(tmp_path / "a"), "mine")
    write_adapter(tmp_path / "lora")
    gateway.services.registry.hear(heartbeat("sampler_1", WorkerRole.SAMPLER, view.base_model))
    gateway.services.registry.hear(heartbeat("trainer_1", WorkerRole.TRAINER, view.base_model))
    names = ("@ann/mine", f"@{view.reference}", view.base_model, "@mine")
    for base in names:
        assert await reaching(gateway, bob, tmp_path, base) == [], base
    async with gateway.bob.get("/v1/models") as response:
        assert "mine" not in await response.text()
    async with gateway.bob.get("/api/v1/get_server_capabilities") as response:
        assert view.base_model not in await response.text()
    for attempt in (bob.base_models.get("ann/mine"), bob.base_models.delete("ann/mine")):
        with pytest.raises(warren.NotFound):
            await attempt

    assert (await client.base_models.share("mine", "bob")).shared_with == ("bob",)
    for attempt in (bob.base_models.delete("ann/mine"), bob.base_models.share("ann/mine")):
        with pytest.raises(warren.NotFound):
            await attempt
    async with gateway.bob.get("/v1/models") as response:
        assert f"@{view.reference}" in await response.text()
    assert await bob.base_models.get("ann/mine") == view
    assert (await bob.served()) == ()
    await bob.serve("hers", model="@ann/mine")

    assert (await client.base_models.unshare("mine", "bob")).shared_with == ()
    for base in names:
        assert await reaching(gateway, bob, tmp_path, base) == [], base
    assert (await chat(gateway.bob, model="hers"))[0] == 404


async def test_a_checkpoint_of_a_shared_run_does_not_open_its_base_model(
    client: warren.Client, bob: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    view = await client.base_models.upload(write_base_model(tmp_path / "a"), "mine")
    run = await client.train(config("@mine"))
    await client.access.share(run.id, "bob")
    with pytest.raises(warren.ConfigurationError) as refused:
        await bob.train({**config(view.base_model), "resume_from": {"run": run.id}})
    assert "model.base: there is no base model" in str(refused.value)


async def test_the_commands_say_what_there_is(
    client: warren.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = GatewayOption(client.settings.url, client.settings.api_key)
    folder = write_base_model(tmp_path / "a")
    await asyncio.to_thread(commands.ls, gateway=here)
    await asyncio.to_thread(commands.upload, folder, name="mine", gateway=here)
    await asyncio.to_thread(commands.share, "mine", "bob", gateway=here)
    await asyncio.to_thread(commands.ls, gateway=here)
    await asyncio.to_thread(commands.show, "mine", gateway=here)
    await asyncio.to_thread(commands.download, "mine", to=tmp_path / "copy", gateway=here)
    await asyncio.to_thread(commands.unshare, "mine", "bob", gateway=here)
    await asyncio.to_thread(commands.rm, "mine", gateway=here)
    told = capsys.readouterr().out
    assert "No base models yet" in told
    assert "Qwen3ForCausalLM with" in told and "GPU workers call it warren/uploaded-" in told
    assert f"{tmp_path / 'copy'}: config.json, model.safetensors" in told
    assert "ann/mine is shared with nobody now" in told
    assert told.endswith("is deleted\n")
