"""Runs that are shared: what another user may do with them, and what not."""

import asyncio
import contextlib
from pathlib import Path

import aiohttp
import pytest
from sqlmodel import Session
from tests.support.adapters import write_adapter
from tests.support.gateway import CONFIG, Gateway, ended
from tests.support.patience import PATIENCE_S
from tests.support.uploaded_models import write_base_model

import warren
from warren.cli.commands.access.sharing import shares
from warren.cli.options import Gateway as GatewayOption
from warren_gateway.access.key import Key
from warren_gateway.store.tables import Run
from warren_schemas.events import RunState
from warren_schemas.ids import RunId
from warren_schemas.users.access import ShareView
from warren_schemas.users.limits import Limits

READ = ("", "/checkpoints", "/checkpoints/metrics", "/metrics", "/trajectories?limit=1")


async def share(gateway: Gateway, run: str, user: str | None, verb: str = "share") -> int:
    body = {"user": user}
    async with gateway.ann.post(f"/v1/runs/{run}/{verb}", json=body) as response:
        return response.status


async def status(client: aiohttp.ClientSession, path: str, method: str = "GET") -> int:
    async with client.request(method, path) as response:
        return response.status


async def over(gateway: Gateway, run: RunId) -> None:
    def end(session: Session) -> None:
        session.get_one(Run, run).state = RunState.COMPLETED

    await gateway.store.transact(end)
    await gateway.tell(run, ended())


@pytest.mark.parametrize("whom", ["bob", None])
async def test_a_shared_run_is_read_until_it_is_unshared(
    gateway: Gateway, whom: str | None
) -> None:
    run = await gateway.submit()
    await over(gateway, run)
    assert {await status(gateway.bob, f"/v1/runs/{run}{path}") for path in READ} == {404}
    assert [await share(gateway, run, whom) for _ in range(2)] == [200, 200]
    assert {await status(gateway.bob, f"/v1/runs/{run}{path}") for path in READ} == {200}
    async with gateway.bob.get("/v1/runs") as response:
        assert (await response.json())["runs"] == []
    async with gateway.bob.get("/v1/runs?shared=true") as response:
        (seen,) = (await response.json())["runs"]
        assert (seen["id"], seen["owner"]) == (run, "ann")
    assert await share(gateway, run, whom, "unshare") == 200
    assert {await status(gateway.bob, f"/v1/runs/{run}{path}") for path in READ} == {404}


async def test_whom_a_run_is_shared_with_changes_nothing_of_it(gateway: Gateway) -> None:
    run = await gateway.submit()
    await share(gateway, run, "bob")
    for verb in ("cancel", "delete", "share", "unshare"):
        assert await status(gateway.bob, f"/v1/runs/{run}/{verb}", "POST") == 404
    assert await status(gateway.ann, f"/v1/runs/{run}") == 200


async def test_who_shares_and_with_whom_is_listed(gateway: Gateway) -> None:
    run = await gateway.submit()
    await share(gateway, run, "bob")
    await share(gateway, run, None)
    for client in (gateway.ann, gateway.bob):
        async with client.get("/v1/shares") as response:
            shares = [ShareView.model_validate(s) for s in (await response.json())["shares"]]
        assert {(s.run, s.owner, s.user) for s in shares} == {
            (run, "ann", "bob"),
            (run, "ann", None),
        }
    assert await share(gateway, run, "nobody-we-know") == 404
    assert await share(gateway, run, None, "unshare") == 200
    async with gateway.bob.get("/v1/shares") as response:
        assert [s["user"] for s in (await response.json())["shares"]] == ["bob"]


async def test_all_kinds_that_are_shared_are_listed(
    client: warren.Client,
    gateway: Gateway,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run, rows = await gateway.submit(), tmp_path / "rows.jsonl"
    rows.write_text('{"prompt": "1?", "completion": "1"}\n')
    await share(gateway, run, "bob")
    await client.datasets.upload(rows, "chats")
    await (await client.datasets.get("chats")).share("bob")
    for name in ("poet", "critic"):
        await client.adapters.upload(write_adapter(tmp_path / name), name)
        await client.adapters.share(name)
    await client.base_models.upload(write_base_model(tmp_path / "model"), "mine")
    await client.base_models.share("mine", "bob")

    expected = [
        ("run", run, "bob"),
        ("dataset", "chats", "bob"),
        ("adapter", "critic", None),
        ("adapter", "poet", None),
        ("base_model", "mine", "bob"),
    ]
    assert await listed(gateway.ann) == await listed(gateway.bob) == expected
    assert await client.adapters.share("poet", "bob")
    await client.base_models.unshare("mine", "bob")
    assert await listed(gateway.bob) == [
        *expected[:2], ("adapter", "poet", "bob"), *expected[2:4],
    ]  # fmt: skip
    carols = Key.new()
    await gateway.services.keys.add(carols, "carol")
    async with aiohttp.ClientSession(
        gateway.url, headers={"Authorization": f"Bearer {carols}"}
    ) as third:
        assert await listed(third) == expected[2:4], "what is for everybody, and no more"

    here = GatewayOption(client.settings.url, client.settings.api_key)
    await asyncio.to_thread(shares, gateway=here)
    told = capsys.readouterr().out
    assert "data set" in told and "poet" in told and "everybody" in told and run in told


async def listed(client: aiohttp.ClientSession) -> list[tuple[str, str, str | None]]:
    async with client.get("/v1/shares") as response:
        found = [ShareView.model_validate(s) for s in (await response.json())["shares"]]
    return [(share.kind.value, share.run or share.name, share.user) for share in found]


async def test_where_nothing_is_shared_that_is_said(
    client: warren.Client, capsys: pytest.CaptureFixture[str]
) -> None:
    here = GatewayOption(client.settings.url, client.settings.api_key)
    await asyncio.to_thread(shares, gateway=here)
    assert capsys.readouterr().out == "Nothing is shared by you or with you.\n"


async def test_a_shared_recording_is_replayed_and_then_stays_until_the_replay_ends(
    gateway: Gateway,
) -> None:
    run = await gateway.submit()
    await over(gateway, run)
    body = {"config": {**CONFIG, "source": {"kind": "recorded", "run": run}}}
    async with gateway.bob.post("/v1/runs", json=body) as response:
        assert response.status == 422
    await share(gateway, run, "bob")
    async with gateway.bob.post("/v1/runs", json=body) as response:
        assert response.status == 201, await response.text()
        replay = (await response.json())["id"]
    async with gateway.ann.post(f"/v1/runs/{run}/delete") as response:
        assert response.status == 409
        told = (await response.json())["message"]
    assert "a run of another user" in told and replay not in told
    await over(gateway, replay)
    assert await status(gateway.ann, f"/v1/runs/{run}/delete", "POST") == 200


async def test_a_stream_ends_when_the_run_is_unshared(gateway: Gateway) -> None:
    run, watching = await gateway.submit(), asyncio.create_task(gateway.services.callers.run())
    await share(gateway, run, "bob")
    async with asyncio.timeout(PATIENCE_S), gateway.bob.get(f"/v1/runs/{run}/events") as response:
        assert response.status == 200
        await share(gateway, run, "bob", "unshare")
        with contextlib.suppress(aiohttp.ClientError):
            await response.read()
    assert await status(gateway.bob, f"/v1/runs/{run}/events") == 404
    watching.cancel()


async def test_limits_are_set_for_one_user_and_hold_at_once(gateway: Gateway) -> None:
    key = Key.new()
    await gateway.services.keys.add(key, "local")
    headers = {"Authorization": f"Bearer {key}"}
    async with aiohttp.ClientSession(gateway.url, headers=headers) as admin:
        limits = {"runs_queued": 1, "gpu_weight": 2}
        async with admin.post("/v1/users/ann/limits", json=limits) as response:
            assert response.status == 200
        await gateway.submit()
        async with gateway.ann.post("/v1/runs", json={"config": CONFIG}) as response:
            assert response.status == 429 and response.headers["Retry-After"]
        async with gateway.ann.get("/v1/users/ann") as response:
            views = {view["name"]: view for view in (await response.json())["limits"]}
        assert (views["runs_queued"]["limit"], views["runs_queued"]["used"]) == (1, 1)
        assert views["gpu_weight"]["limit"] == 2 and views["stored_gib"]["is_default"]
        async with admin.post("/v1/users/ann/limits", json={"runs_queued": None}) as response:
            assert response.status == 200
        await gateway.submit()
        async with admin.post("/v1/users/ann/limits", json={"requests_per_s": 0}) as response:
            assert response.status == 422


async def test_a_user_with_a_rate_of_their_own_is_held_to_it(gateway: Gateway) -> None:
    await gateway.services.user_limits.change("bob", Limits(requests_per_s=1e-2))
    statuses = [await status(gateway.bob, "/v1/budgets") for _ in range(8)]
    assert statuses[0] == 200 and statuses[-1] == 429
    assert await status(gateway.ann, "/v1/budgets") == 200
