"""The files of a checkpoint through the gateway, as the SDK fetches them."""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlmodel import Session, col
from tests.support.gateway import Gateway

import warren
from warren.connection.downloading import Download
from warren.connection.partial_download import Wanted, prepare
from warren.connection.transport import Transport
from warren.settings import find_settings
from warren_gateway.store.tables import Model, Run
from warren_schemas.files import SEAL, FolderView
from warren_schemas.ids import RunId

WEIGHTS = bytes(range(256)) * 5000


def seal(folder: Path, **files: bytes) -> None:
    """A policy as a trainer leaves it."""
    folder.mkdir(parents=True)
    lines: list[str] = []
    for name, content in files.items():
        (folder / name).write_bytes(content)
        lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    (folder / SEAL).write_text("".join(lines))


async def published(gateway: Gateway, folder: Path) -> RunId:
    run = await gateway.submit()
    await publish(gateway, run, folder, policies=[(0, 4)])
    return run


async def publish(
    gateway: Gateway, run: RunId, folder: Path, *, policies: list[tuple[int, int]]
) -> None:
    """As a coordinator stores it; the last policy is the newest."""
    step, version = policies[-1]

    def write(session: Session) -> None:
        made = {"policy_url": f"file://{folder}", "policy_version": version, "policies": policies}
        session.exec(update(Model).where(col(Model.run_id) == run).values(**made))
        session.exec(update(Run).where(col(Run.id) == run).values(step=step))

    await gateway.store.transact(write)


class Publishing(Transport):
    """The run publishes policy version 5 as soon as a file has come."""

    def __init__(self, gateway: Gateway, run: RunId, folder: Path) -> None:
        key = gateway.ann.headers["Authorization"].removeprefix("Bearer ")
        super().__init__(find_settings(gateway.url, key), timeout_s=30.0, retry_s=10.0)
        self._gateway, self._run, self._folder = gateway, run, folder

    @asynccontextmanager
    async def chunks(self, path: str, *, etag: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        async with super().chunks(path, etag=etag) as chunks:
            yield chunks
        await publish(self._gateway, self._run, self._folder, policies=[(0, 4), (1, 5)])


async def test_a_policy_is_fetched_whole_and_checked(
    gateway: Gateway, client: warren.Client, tmp_path: Path
) -> None:
    seal(tmp_path / "p" / "v4", weights=WEIGHTS, config=b"{}", empty=b"")
    run = await client.run(await published(gateway, tmp_path / "p" / "v4"))
    folder = await run.download(tmp_path / "here")
    assert [file.name for file in folder.files] == ["weights", "config", "empty"]
    assert (tmp_path / "here" / "weights").read_bytes() == WEIGHTS
    assert (tmp_path / "here" / SEAL).read_text() == (tmp_path / "p/v4" / SEAL).read_text()
    with pytest.raises(warren.ConfigurationError, match="already exists"):
        await run.download(tmp_path / "here", "v4")
    with pytest.raises(warren.NotFound, match="no policy of step 5"):
        await run.download(tmp_path / "other", "5")


async def test_what_was_cut_off_is_taken_up(
    gateway: Gateway, client: warren.Client, tmp_path: Path
) -> None:
    seal(tmp_path / "p" / "v4", weights=WEIGHTS)
    run = await client.run(await published(gateway, tmp_path / "p" / "v4"))
    async with gateway.ann.get(f"/v1/runs/{run.id}/files") as response:
        files = FolderView.model_validate_json(await response.read()).files
    part = tmp_path / "here.part"
    prepare(part, Wanted(run=run.id, version="v4", files=files))
    (part / "weights").write_bytes(b"?" + WEIGHTS[1:1000])
    with pytest.raises(warren.GatewayError, match="SHA-256 differs"):  # so it went on behind these
        await run.download(tmp_path / "here")
    (part / "weights").write_bytes(WEIGHTS[:1000])
    await run.download(tmp_path / "here")
    assert (tmp_path / "here" / "weights").read_bytes() == WEIGHTS
    assert {path.name for path in (tmp_path / "here").iterdir()} == {"weights", SEAL}


async def test_what_is_left_of_another_version_is_not_gone_on_with(
    gateway: Gateway, client: warren.Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    older, newer = WEIGHTS, WEIGHTS[::-1]
    for version, content in ((4, older), (5, newer)):
        seal(tmp_path / "p" / f"v{version}", weights=content)
    run = await client.run(await published(gateway, tmp_path / "p" / "v4"))
    (tmp_path / "p" / "v4" / "weights").write_bytes(older[:1000])
    with pytest.raises((warren.GatewayError, warren.GatewayUnreachable)):
        await run.download(tmp_path / "here", reconnect_s=0.0)
    await publish(gateway, run.id, tmp_path / "p" / "v5", policies=[(0, 4), (1, 5)])
    await run.download(tmp_path / "here")
    assert (tmp_path / "here" / "weights").read_bytes() == newer
    assert f"{run.id}@v4" in caplog.text


async def test_a_folder_that_is_no_download_is_left_alone(
    gateway: Gateway, client: warren.Client, tmp_path: Path
) -> None:
    seal(tmp_path / "p" / "v4", weights=WEIGHTS)
    run = await client.run(await published(gateway, tmp_path / "p" / "v4"))
    (tmp_path / "here.part").mkdir()
    (tmp_path / "here.part" / "thesis").write_text("mine")
    with pytest.raises(warren.ConfigurationError, match="in the way"):
        await run.download(tmp_path / "here")
    assert (tmp_path / "here.part" / "thesis").read_text() == "mine"


async def test_a_download_is_of_one_version_while_the_run_goes_on(
    gateway: Gateway, tmp_path: Path
) -> None:
    """A newer policy is published when the first file has come."""
    older = {"a": WEIGHTS, "b": WEIGHTS * 2}
    newer = {name: content[::-1] for name, content in older.items()}
    seal(tmp_path / "p" / "v4", **older)
    seal(tmp_path / "p" / "v5", **newer)
    run = await published(gateway, tmp_path / "p" / "v4")

    transport = Publishing(gateway, run, tmp_path / "p" / "v5")
    await transport.open()
    try:
        folder = await Download(transport, run, "", reconnect_s=10.0).into(tmp_path / "here")
    finally:
        await transport.close()
    assert folder.version == "v4"
    assert {name: (tmp_path / "here" / name).read_bytes() for name in older} == older


async def test_files_that_are_not_what_was_saved_are_refused(
    gateway: Gateway, client: warren.Client, tmp_path: Path
) -> None:
    seal(tmp_path / "p" / "v4", weights=WEIGHTS)
    (tmp_path / "p" / "v4" / "weights").write_bytes(WEIGHTS[::-1])
    run = await client.run(await published(gateway, tmp_path / "p" / "v4"))
    with pytest.raises(warren.GatewayError, match="SHA-256 differs"):
        await run.download(tmp_path / "here")
    assert not (tmp_path / "here").exists()


async def test_another_owner_sees_nothing(gateway: Gateway, tmp_path: Path) -> None:
    seal(tmp_path / "p" / "v4", weights=WEIGHTS)
    run = await published(gateway, tmp_path / "p" / "v4")
    for path in (f"/v1/runs/{run}/files", f"/v1/runs/{run}/file?name=weights"):
        async with gateway.bob.get(path) as response:
            assert response.status == 404


@pytest.mark.parametrize("name", ["../../secret", "/etc/passwd", "..", SEAL, ""])
async def test_no_name_leads_out_of_the_folder(gateway: Gateway, tmp_path: Path, name: str) -> None:
    seal(tmp_path / "p" / "v4", weights=WEIGHTS)
    (tmp_path / "secret").write_text("secret")
    run = await published(gateway, tmp_path / "p" / "v4")
    async with gateway.ann.get(f"/v1/runs/{run}/file", params={"name": name}) as response:
        assert response.status == 404


async def test_a_seal_that_leads_out_is_refused(gateway: Gateway, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    seal(tmp_path / "p" / "v4")
    digest = hashlib.sha256(b"secret").hexdigest()
    (tmp_path / "p" / "v4" / SEAL).write_text(f"{digest}  ../../secret\n")
    run = await published(gateway, tmp_path / "p" / "v4")
    async with gateway.ann.get(f"/v1/runs/{run}/file", params={"name": "../../secret"}) as response:
        assert response.status == 409


async def test_a_folder_that_the_gateway_can_not_reach(
    gateway: Gateway, client: warren.Client, tmp_path: Path
) -> None:
    run = await client.run(await published(gateway, tmp_path / "elsewhere" / "v4"))
    with pytest.raises(warren.GatewayError, match="can't be read from here") as caught:
        await run.download(tmp_path / "here")
    assert caught.value.code == "files_unreachable"
