"""Adapters that are shared: what another user may do with them, and what not; what their files are answered with."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from sqlmodel import Session, select
from tests.support.access import ADMIN
from tests.support.adapters import write_adapter
from tests.support.gateway import CONFIG, Gateway
from tests.support.openai_asking import chat, publish
from tests.support.rote_sampler import BASE, asking, ignored
from tests.support.tinker import Wire

import warren
from warren.cli.commands.models import adapters as commands
from warren.cli.options import Gateway as GatewayOption
from warren_gateway.access.key import Key
from warren_gateway.access.rows import LOCAL_USER
from warren_gateway.api.openapi import document
from warren_gateway.store.tables import AdapterRow, AdapterShareRow, Model, Run
from warren_schemas.config import LoraUpdate
from warren_schemas.events import RunState
from warren_schemas.users.access import CreateKey, KeyScope
from warren_schemas.users.limits import Limits

__all__ = ["asking", "ignored"]

HERS = "ann/poet"


@pytest_asyncio.fixture
async def bob(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    key = gateway.bob.headers["Authorization"].removeprefix("Bearer ")
    async with warren.connect(gateway.url, key, retry_s=2.0) as client:
        yield client


@pytest_asyncio.fixture
async def admin(gateway: Gateway) -> AsyncGenerator[warren.Client]:
    key = Key.new()
    await gateway.services.keys.add(key, LOCAL_USER)
    async with warren.connect(gateway.url, str(key)) as client:
        yield client


def beginning_with(reference: str) -> dict[str, Any]:
    model = {"base": BASE, "update": {"kind": "lora", "start_adapter": reference}}
    return {**CONFIG, "model": model}


async def starts_from(gateway: Gateway, run: str) -> str | None:
    """Id of the uploaded adapter that a run begins with."""
    query = select(Model.adapter_id).where(Model.run_id == run)
    return await gateway.store.read(lambda session: session.exec(query).one())


async def end(gateway: Gateway, run: str) -> None:
    def work(session: Session) -> None:
        session.get_one(Run, run).state = RunState.COMPLETED

    await gateway.store.transact(work)


@pytest.mark.parametrize("whom", ["bob", None])
async def test_others_use_an_adapter_while_it_is_shared_with_them(
    client: warren.Client, bob: warren.Client, asking: Gateway, tmp_path: Path, whom: str | None
) -> None:
    view = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    for _ in range(2):
        assert (await client.adapters.share("poet", whom)).shared_with == (whom or "*",)
    assert await bob.adapters.all() == (view,), "with whom it is shared is told to its owner"
    newer = await client.adapters.upload(write_adapter(tmp_path / "b", lora_alpha=9), "poet")
    assert newer.shared_with == (whom or "*",)
    assert (await bob.adapters.get(HERS)).reference == newer.reference
    assert await bob.adapters.get(f"{HERS}@{view.digest[:8]}") == view
    assert (await bob.adapters.download(HERS, tmp_path / "copy")).version == newer.digest
    assert (await chat(asking.bob, model=HERS))[0] == 200
    async with asking.bob.get("/v1/models") as response:
        assert newer.reference in await response.text()
    run = await bob.train(beginning_with(HERS))
    assert run.view.config is not None and isinstance(run.view.config.model.update, LoraUpdate)
    assert run.view.config.model.update.start_adapter == newer.reference
    await bob.evaluate(adapter=HERS, environments=["guess"], episodes=4)

    assert (await client.adapters.unshare("poet", whom)).shared_with == ()
    assert await bob.adapters.all() == ()
    assert (await chat(asking.bob, model=HERS))[0] == 404
    for attempt in (
        bob.adapters.get(HERS),
        bob.adapters.download(newer.reference, tmp_path / "again"),
        bob.evaluate(adapter=HERS, environments=["guess"]),
    ):
        with pytest.raises(warren.NotFound):
            await attempt
    with pytest.raises(warren.ConfigurationError, match="there is no adapter"):
        await bob.train(beginning_with(newer.reference))
    assert await starts_from(asking, run.id) is not None, "what has begun is theirs"


async def test_whom_it_is_shared_with_changes_nothing_of_it(
    client: warren.Client, bob: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    view = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    await client.adapters.share("poet")
    for attempt in (
        bob.adapters.delete(HERS),
        bob.adapters.delete(view.reference),
        bob.adapters.share(HERS, "bob"),
        bob.adapters.unshare(HERS),
        bob.adapters.delete("poet"),
    ):
        with pytest.raises(warren.NotFound):
            await attempt
    with pytest.raises(warren.GatewayError, match="served by its owner alone") as refused:
        await bob.serve("mine", adapter=HERS)
    assert "Ask for it as ann/poet" in (refused.value.hint or "")
    mine = await bob.adapters.upload(write_adapter(tmp_path / "b", lora_alpha=9), "poet")
    assert (mine.owner, mine.shared_with) == ("bob", ())
    assert (await client.adapters.get("poet")).reference == view.reference
    run = await bob.train(beginning_with(HERS))
    with pytest.raises(warren.GatewayError, match="a run of another user starts from poet"):
        await client.adapters.delete("poet")
    await end(gateway, run.id)
    assert await client.adapters.delete("poet") == (view.reference,)


async def test_a_share_ends_with_the_last_version(
    client: warren.Client, bob: warren.Client, gateway: Gateway, tmp_path: Path
) -> None:
    first = await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    await client.adapters.upload(write_adapter(tmp_path / "b", lora_alpha=9), "poet")
    await client.adapters.share("poet", "bob")
    await client.adapters.delete(first.reference)
    assert len(await bob.adapters.all()) == 1
    await client.adapters.delete("poet")
    query = select(AdapterShareRow)
    assert await gateway.store.read(lambda session: session.exec(query).all()) == []
    await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    assert await bob.adapters.all() == ()


async def test_a_name_is_asked_by_those_whom_its_adapter_is_shared_with(
    client: warren.Client, bob: warren.Client, asking: Gateway, tmp_path: Path
) -> None:
    await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    await client.serve("helper", adapter="poet")
    assert await bob.served() == () and (await chat(asking.bob, model="ann/helper"))[0] == 404
    await client.adapters.share("poet", "bob")
    assert [each.name for each in await bob.served()] == ["helper"]
    assert (await chat(asking.bob, model="ann/helper"))[0] == 200
    await client.adapters.unshare("poet", "bob")
    assert await bob.served() == () and (await chat(asking.bob, model="ann/helper"))[0] == 404


async def test_a_sampler_of_tinkers_clients_ends_with_its_share(
    client: warren.Client, asking: Gateway, tmp_path: Path
) -> None:
    """Of an adapter and of a run alike, however long ago it was opened."""
    await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    run = await asking.submit()
    await asking.store.transact(lambda session: publish(session, run))
    await client.adapters.share("poet", "bob")
    await client.access.share(run, "bob")
    wire = Wire(asking.bob)
    session = await wire.session()
    samplers = [
        await wire.sampler(session, number, base_model=base)
        for number, base in enumerate((HERS, run, BASE))
    ]
    futures = asyncio.create_task(asking.services.tinker.futures.run())
    for sampler in samplers:
        await wire.ask(sampler, 1, [1, 2])
    await client.adapters.unshare("poet", "bob")
    await client.access.unshare(run, "bob")
    for sampler, status in zip(samplers, (404, 404, 200), strict=True):
        await wire.ask(sampler, 2, [1, 2], status=status)
    futures.cancel()


async def test_admins_see_all_and_who_shared_is_in_the_audit_log(
    client: warren.Client, bob: warren.Client, admin: warren.Client, tmp_path: Path
) -> None:
    await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    await client.adapters.share("poet", "bob")
    assert [each.shared_with for each in await admin.adapters.all()] == [("bob",)]
    assert (await admin.adapters.share(HERS)).shared_with == ("*", "bob")
    assert (await admin.adapters.unshare(HERS, "bob")).shared_with == ("*",)
    with pytest.raises(warren.NotFound, match="no user nobody"):
        await client.adapters.share("poet", "nobody")
    with pytest.raises(warren.ConfigurationError, match="There can be no user"):
        await client.adapters.share("poet", "No Body")
    with pytest.raises(warren.NotFound):
        await bob.adapters.unshare(HERS)
    entries = [(each.user, each.action, each.status) for each in await admin.access.audit()]
    assert entries[:5] == [
        ("bob", "unshare_adapter", 404),
        ("ann", "share_adapter", 404),
        ("local", "unshare_adapter", 200),
        ("local", "share_adapter", 200),
        ("ann", "share_adapter", 200),
    ]


async def test_the_commands_say_with_whom(
    client: warren.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = GatewayOption(client.settings.url, client.settings.api_key)
    await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    await asyncio.to_thread(commands.share, "poet", "bob", gateway=here)
    await asyncio.to_thread(commands.share, "poet", everybody=True, gateway=here)
    await asyncio.to_thread(commands.ls, gateway=here)
    await asyncio.to_thread(commands.unshare, "poet", everybody=True, gateway=here)
    await asyncio.to_thread(commands.unshare, "poet", "bob", gateway=here)
    with pytest.raises(warren.ConfigurationError, match="with whom"):
        await asyncio.to_thread(commands.share, "poet", gateway=here)
    told = capsys.readouterr().out
    assert "ann/poet is shared with everybody, bob now" in told
    assert "SHARED WITH" in told and "everybody, bob" in told
    assert told.endswith("ann/poet is shared with nobody now\n")


async def answered(client: aiohttp.ClientSession, path: str, **query: str) -> int:
    async with client.get(path, params={"adapter": HERS, **query}) as response:
        return response.status


@pytest.mark.parametrize("path", ["/v1/adapters/files", "/v1/adapters/file"])
async def test_the_routes_of_files_declare_what_they_answer(
    client: warren.Client, gateway: Gateway, tmp_path: Path, path: str
) -> None:
    await client.adapters.upload(write_adapter(tmp_path / "a"), "poet")
    await client.adapters.share("poet", "bob")
    name = {"name": "adapter_model.safetensors"} if path.endswith("file") else {}
    wanted = CreateKey(user="bob", scopes=(KeyScope.SUBMIT,))
    lacking = await gateway.services.keys.create(ADMIN, wanted)
    seen = {
        await answered(gateway.bob, path, **name),
        await answered(gateway.nobody, path, **name),
        await answered(gateway.bob, path, adapter="ann/other", **name),
        await answered(gateway.bob, path, adapter="no name", **name),
        await answered(gateway.bob, path, **name, unknown="1"),
    }
    if name:
        assert await answered(gateway.bob, path, name="../x") == 404
        assert await answered(gateway.bob, path, **name, offset="-1") == 422
        assert await answered(gateway.bob, path, **name, offset=str(2**63 - 1)) == 200
    headers = {"Authorization": f"Bearer {lacking.key}"}
    async with aiohttp.ClientSession(gateway.url, headers=headers) as keyless:
        seen.add(await answered(keyless, path, **name))
    await spoil_weights(gateway, is_listed=path.endswith("file"))
    seen.add(await answered(gateway.bob, path, **name))
    await gateway.services.user_limits.change("bob", Limits(requests_per_s=1e-2))
    seen |= {await answered(gateway.bob, path, **name) for _ in range(8)}
    declared = {int(status) for status in document()["paths"][path]["get"]["responses"]}
    assert seen == declared - {500}


async def spoil_weights(gateway: Gateway, *, is_listed: bool) -> None:
    """The file is gone; or it is there when it is listed, and can't be opened then."""
    query = select(AdapterRow.url)
    url = await gateway.store.read(lambda session: session.exec(query).one())
    weights = Path(url.removeprefix("file://")) / "adapter_model.safetensors"
    weights.unlink()
    if is_listed:
        weights.mkdir()
