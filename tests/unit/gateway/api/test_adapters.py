"""Adapters: uploaded, named, served, started from and deleted, through the SDK and the command against the real app."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from sqlmodel import Session, SQLModel, select
from tests.support.adapters import BOTH, CONFIG, packed, pair, write_adapter
from tests.support.gateway import CONFIG as RUN_CONFIG
from tests.support.gateway import Gateway
from tests.support.openai_asking import chat
from tests.support.rote_sampler import BASE, asking, ignored, post

import warren
from warren.cli.commands.models import adapters as commands
from warren.cli.commands.runs.serve import serve as serve_command
from warren.cli.options import Gateway as GatewayOption
from warren_gateway.access.caller import Viewer
from warren_gateway.adapters.deleting import delete_versions
from warren_gateway.budgets.options import BudgetOptions
from warren_gateway.store.tables import AdapterRow, DatasetUploadRow, Model, Run
from warren_schemas.config import LoraUpdate
from warren_schemas.events import RunState
from warren_schemas.training import ModelSpec

__all__ = ["asking", "ignored"]


@pytest_asyncio.fixture
async def bob(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    key = gateway.bob.headers["Authorization"].removeprefix("Bearer ")
    async with warren.connect(gateway.url, key, retry_s=2.0) as client:
        yield client


def config(**update: Any) -> dict[str, Any]:
    model = {"base": BASE, "update": {"kind": "lora", "start_adapter": "poet", **update}}
    return {**RUN_CONFIG, "model": model}


RowT = TypeVar("RowT", bound=SQLModel)


async def rows(gateway: Gateway, table: type[RowT]) -> list[RowT]:
    return await gateway.store.transact(lambda session: list(session.exec(select(table))))


def stored_folders(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "runs" / "adapters").glob("*"))


async def test_what_was_uploaded_has_a_name_and_versions(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    view = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    assert (view.owner, view.name, view.base_model) == ("ann", "poet", BASE)
    assert (view.rank, view.alpha, view.targets) == (4, 8.0, ("q_proj", "v_proj"))
    again = await client.adapters.upload(write_adapter(tmp_path / "b"), "poet")
    newer = await client.adapters.upload(write_adapter(tmp_path / "c", lora_alpha=16), "poet")
    assert view.reference == again.reference != newer.reference
    assert (await client.adapters.get("poet")).reference == newer.reference
    assert await client.adapters.get(f"poet@{view.digest[:8]}") == view
    assert [each.reference for each in await client.adapters.all()] == [
        newer.reference,
        view.reference,
    ]
    assert await client.adapters.delete(f"ann/poet@{view.digest[:8]}") == (view.reference,)
    assert await client.adapters.all() == (newer,)
    assert await rows(gateway, DatasetUploadRow) == []


async def test_its_folder_is_sealed_and_written_anew(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    folder = write_adapter(
        tmp_path / "a", revision="../../x", auto_mapping={"parent_library": "os"}
    )
    view = await client.adapters.upload(folder, "poet")
    (row,) = await rows(gateway, AdapterRow)
    stored = Path(row.url.removeprefix("file://"))
    seal = (stored / "SHA256SUMS").read_bytes()
    assert hashlib.sha256(seal).hexdigest() == view.digest
    for line in seal.decode().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((stored / name).read_bytes()).hexdigest() == digest
    assert (stored / "adapter_model.safetensors").read_bytes() == packed(BOTH, {"format": "pt"})
    kept = json.loads((stored / "adapter_config.json").read_text())
    assert (kept["r"], kept["target_modules"]) == (4, ["q_proj", "v_proj"])
    assert "revision" not in kept and "auto_mapping" not in kept
    await client.adapters.delete("poet")
    assert stored_folders(tmp_path) == []


async def test_it_is_downloaded_as_it_was_sealed(
    client: warren.Client, bob: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    view = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    (row,) = await rows(gateway, AdapterRow)
    stored = Path(row.url.removeprefix("file://"))
    folder = await client.adapters.download("poet", tmp_path / "copy")
    assert folder.version == view.digest
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        assert (tmp_path / "copy" / name).read_bytes() == (stored / name).read_bytes()
    assert (await client.adapters.upload(tmp_path / "copy", "again")).digest == view.digest
    query = {"adapter": "poet", "name": "adapter_model.safetensors", "offset": "100"}
    async with gateway.ann.get("/v1/adapters/file", params=query) as response:
        assert await response.read() == packed(BOTH, {"format": "pt"})[100:]
    async with gateway.ann.get("/v1/adapters/file", params={**query, "name": "../x"}) as response:
        assert response.status == 404
        assert "it has: adapter_config.json" in (await response.json())["message"]
    with pytest.raises(warren.NotFound):
        await bob.adapters.download(view.reference, tmp_path / "theirs")
    with pytest.raises(warren.ConfigurationError, match="already exists"):
        await client.adapters.download("poet", tmp_path / "copy")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"use_dora": True}, "use_dora: DoRA"),
        ({"r": 8}, "so the rank 4, and r is 8"),
        ({"target_modules": ["q_proj"]}, "which target_modules does not name"),
    ],
)
async def test_a_wrong_folder_is_told_before_anything_is_sent(
    client: warren.Client, gateway: Gateway, tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(warren.ConfigurationError) as refused:
        await client.adapters.upload(write_adapter(tmp_path / "a", **changes), "poet")
    assert reason in str(refused.value)
    assert await rows(gateway, DatasetUploadRow) == []


async def test_a_folder_of_something_else_is_told(client: warren.Client, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "a")
    with pytest.raises(warren.ConfigurationError, match="can't be uploaded"):
        await client.adapters.upload(folder, "no name")
    with pytest.raises(warren.ConfigurationError, match="can't be uploaded"):
        await client.adapters.upload(folder, "poet", base_model="/home/ann/tiny")
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(warren.ConfigurationError, match=r"adapter_model\.safetensors is missing"):
        await client.adapters.upload(folder, "poet")


async def put(gateway: Gateway, data: bytes, **body: Any) -> tuple[int, dict[str, Any]]:
    """By a client that checks nothing."""
    sha256 = hashlib.sha256(data).hexdigest()
    async with gateway.ann.post(f"/v1/adapters/upload?sha256={sha256}", data=data) as response:
        assert response.status == 200
    wanted = {"name": "poet", "base_model": BASE, "config": CONFIG, "sha256": sha256}
    return await post(gateway.ann, "/v1/adapters", {**wanted, "size_bytes": len(data), **body})


@pytest.mark.parametrize(
    ("data", "body", "reason"),
    [
        (b"\x80\x04K\x00." * 9, {}, "pickled files"),
        (packed(pair(value=float("nan"))), {}, "target_modules names v_proj"),
        (packed({**BOTH, **pair(value=float("nan"))}), {}, "not finite"),
        (packed(BOTH), {"config": {**CONFIG, "use_rslora": True}}, "use_rslora"),
        (packed(BOTH), {"config": {**CONFIG, "anything": "/etc/passwd"}}, "anything: unknown key"),
        (packed(BOTH), {"size_bytes": 10_000}, "and should have 10000"),
        (packed(BOTH), {"sha256": "0" * 64}, "has 0 bytes"),
    ],
)
async def test_the_gateway_checks_by_itself(
    gateway: Gateway, tmp_path: Path, data: bytes, body: dict[str, Any], reason: str
) -> None:
    status, told = await put(gateway, data, **body)
    assert (status, told["code"]) == (422, "wrong_adapter")
    assert reason in told["message"]
    assert await rows(gateway, AdapterRow) == []
    assert stored_folders(tmp_path) == []


async def test_an_upload_goes_on_where_it_was_cut_off(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    data = packed(BOTH, {"format": "pt"})
    sha256 = hashlib.sha256(data).hexdigest()
    where = f"/v1/adapters/upload?sha256={sha256}"
    async with gateway.ann.post(where, data=data[:150]) as response:
        assert (await response.json())["received_bytes"] == 150
    async with gateway.ann.post(f"{where}&offset=400", data=data[400:]) as response:
        assert (response.status, (await response.json())["code"]) == (409, "upload_out_of_order")
    view = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    assert view.size_bytes > len(data)


async def test_two_that_upload_the_same_make_one_version(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    folder = write_adapter(tmp_path / "a")
    one, other = await asyncio.gather(
        *(client.adapters.upload(folder, "poet", reconnect_s=60.0) for _ in range(2))
    )
    assert one == other
    assert len(await rows(gateway, AdapterRow)) == 1


@pytest.mark.parametrize("budgets", [BudgetOptions(stored_gib_per_owner=1.5e-6)])
async def test_no_more_is_stored_than_the_owner_may(client: warren.Client, tmp_path: Path) -> None:
    await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    with pytest.raises(warren.GatewayBusy, match="adapters rm NAME"):
        await client.adapters.upload(write_adapter(tmp_path / "b", lora_alpha=9), "other")


async def test_what_a_gateway_that_died_has_left_is_found_by_nobody_and_goes(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    gone = await gateway.store.transact(partial(delete_versions, Viewer("ann"), "poet"))
    with pytest.raises(warren.NotFound):
        await client.adapters.get("poet")
    (row,) = await rows(gateway, AdapterRow)
    assert row.id in gone and row.size_bytes > 0, "its files are there, and count"
    await client.adapters.upload(write_adapter(tmp_path / "b", lora_alpha=9), "new")
    assert [row.name for row in await rows(gateway, AdapterRow)] == ["new"]
    assert len(stored_folders(tmp_path)) == 1


async def test_others_have_no_part_in_it(
    client: warren.Client, bob: warren.Client, asking: Gateway, tmp_path: Path
) -> None:
    view = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    await client.serve("helper", adapter="poet")
    assert await bob.adapters.all() == ()
    for reference in ("poet", "ann/poet", view.reference):
        for attempt in (bob.adapters.get(reference), bob.adapters.delete(reference)):
            with pytest.raises(warren.NotFound):
                await attempt
        with pytest.raises(warren.NotFound):
            await bob.serve("mine", adapter=reference)
        with pytest.raises(warren.NotFound):
            await bob.evaluate(adapter=reference, environments=["guess"])
        status, _ = await chat(asking.bob, model=reference)
        assert status == 404
    assert (await chat(asking.bob, model="ann/helper"))[0] == 404
    with pytest.raises(warren.ConfigurationError) as refused:
        await bob.train(config(start_adapter=view.reference))
    assert "model.update.start_adapter: there is no adapter" in str(refused.value)
    async with asking.bob.get("/v1/models") as response:
        assert "poet" not in await response.text()
    run = await bob.train(config(start_adapter="ann/poet"))  # a name of GPU workers, perhaps
    models = {each.run_id: each for each in await rows(asking, Model)}
    assert models[run.id].adapter_id is None
    assert ModelSpec.model_validate(models[run.id].spec).start_adapter_url is None


async def test_it_is_asked_by_its_own_name_and_by_one_that_it_is_served_under(
    client: warren.Client, asking: Gateway, tmp_path: Path
) -> None:
    first = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    served = await client.serve("helper", adapter="poet")
    assert (served.adapter, served.base_model, served.run) == (first.reference, BASE, None)
    await client.adapters.upload(write_adapter(tmp_path / "b", lora_alpha=9), "poet")
    assert (await client.served())[0].adapter == first.reference
    for name in ("helper", "poet", first.reference):
        status, body = await chat(asking.ann, model=name, return_token_ids=True)
        assert (status, set(body["choices"][0]["versions"])) == (200, {1}), body
    async with asking.ann.get("/v1/models") as response:
        listed = [model["id"] for model in (await response.json())["data"]]
    assert {"helper", first.reference} <= set(listed)
    with pytest.raises(warren.GatewayError, match="is served as helper of ann"):
        await client.adapters.delete("poet")
    assert (await client.stop_serving("helper")).adapter == first.reference
    assert len(await client.adapters.delete("poet")) == 2
    assert (await chat(asking.ann, model="poet"))[0] == 404


async def test_a_run_starts_from_exactly_this_version_and_keeps_it(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    view = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    checked = await client.check(config())
    assert checked.mistakes == ()
    run = await client.train(config(), idempotency_key="only-once")
    assert run.view.config is not None
    update = run.view.config.model.update
    assert isinstance(update, LoraUpdate)
    assert (update.start_adapter, update.rank, update.alpha) == (view.reference, 4, 8.0)
    assert update.targets == ("q_proj", "v_proj")
    assert (await client.train(config(), idempotency_key="only-once")).id == run.id
    (model,) = await rows(gateway, Model)
    (row,) = await rows(gateway, AdapterRow)
    spec = ModelSpec.model_validate(model.spec)
    assert (spec.start_adapter_url, model.adapter_id) == (row.url, row.id)
    with pytest.raises(warren.GatewayError, match=f"{run.id} starts from poet"):
        await client.adapters.delete("poet")

    def end(session: Session) -> None:
        session.get_one(Run, run.id).state = RunState.COMPLETED

    await gateway.store.transact(end)
    assert await client.adapters.delete("poet") == (view.reference,)


async def test_a_model_of_a_loop_of_ones_own_starts_from_one(
    client: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    view = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    update = LoraUpdate(start_adapter="poet")
    made = [await client.create_model(BASE, update=update, key="my-model") for _ in range(2)]
    assert made[0].id == made[1].id
    (model,) = await rows(gateway, Model)
    spec = ModelSpec.model_validate(model.spec)
    assert isinstance(spec.update, LoraUpdate)
    assert (spec.update.start_adapter, spec.update.rank) == (view.reference, 4)
    assert spec.start_adapter_url is not None


@pytest.mark.parametrize(
    ("update", "base", "reason"),
    [
        ({"rank": 8}, BASE, "model.update.rank: 8 is asked for, and the adapter poet has 4"),
        ({"alpha": 5.0}, BASE, "model.update.alpha: 5.0 is asked for"),
        ({"targets": ["k_proj"]}, BASE, "model.update.targets"),
        ({}, "warren/other", "poet is of warren/tiny, and model.base is warren/other"),
        ({"start_adapter": "poet@abcdef"}, BASE, "there is no adapter poet@abcdef"),
    ],
)
async def test_what_does_not_fit_the_adapter_is_refused_when_it_is_submitted(
    client: warren.Client, tmp_path: Path, update: dict[str, Any], base: str, reason: str
) -> None:
    await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    wanted = config(**update)
    wanted["model"]["base"] = base
    with pytest.raises(warren.ConfigurationError) as refused:
        await client.train(wanted)
    assert reason in str(refused.value)
    assert any(reason in line for line in (await client.check(wanted)).mistakes)


async def test_the_commands_say_what_there_is(
    client: warren.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = GatewayOption(client.settings.url, client.settings.api_key)
    folder = write_adapter(tmp_path / "a")
    await asyncio.to_thread(commands.ls, gateway=here)
    await asyncio.to_thread(commands.upload, folder, name="poet", gateway=here)
    await asyncio.to_thread(commands.ls, gateway=here)
    await asyncio.to_thread(serve_command, "helper", adapter="poet", gateway=here)
    await asyncio.to_thread(commands.show, "poet", gateway=here)
    with pytest.raises(warren.GatewayError, match="warren serve rm helper"):
        await asyncio.to_thread(commands.rm, "poet", gateway=here)
    await client.stop_serving("helper")
    await asyncio.to_thread(commands.rm, "poet", gateway=here)
    told = capsys.readouterr().out
    assert "No adapters yet" in told
    assert "rank 4, alpha 8, on q_proj, v_proj of warren/tiny" in told
    assert "helper is the adapter ann/poet@" in told
    assert told.endswith("is deleted\n")
