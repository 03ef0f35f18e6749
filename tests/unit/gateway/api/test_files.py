"""The files of a checkpoint through the gateway, as the SDK fetches them."""

import hashlib
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlmodel import Session, col
from tests.support.gateway import Gateway

import warren
from warren_gateway.store.tables import Model
from warren_schemas.files import SEAL
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

    def write(session: Session) -> None:
        session.exec(
            update(Model)
            .where(col(Model.run_id) == run)
            .values(policy_url=f"file://{folder}", policy_version=4, policies=[(0, 4)])
        )

    await gateway.store.transact(write)
    return run


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
    part = tmp_path / "here.part"
    part.mkdir()
    (part / "weights").write_bytes(WEIGHTS[:1000])
    await run.download(tmp_path / "here")
    assert (tmp_path / "here" / "weights").read_bytes() == WEIGHTS


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
