"""The first key of a machine: written, kept, replaced when it can't be used."""

import logging
from pathlib import Path

import pytest
from tests.support.access import ADMIN, Access

from warren_gateway.access.first_key import ensure_key
from warren_gateway.access.key import InvalidKey, Key
from warren_gateway.settings import GatewaySettings
from warren_gateway.store.store import Store


@pytest.fixture
def access(store: Store) -> Access:
    return Access(store)


async def test_the_first_start_writes_an_admins_key(
    access: Access, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = GatewaySettings(home=tmp_path / "home")
    with caplog.at_level(logging.DEBUG):
        await ensure_key(access.keys, settings)
    text = settings.key_file.read_text()
    key = Key.parse(text)
    assert key is not None
    assert settings.key_file.stat().st_mode & 0o777 == 0o600
    caller = await access.callers.identify(text)
    assert (caller.user, caller.is_admin) == ("local", True)
    assert str(settings.key_file) in caplog.text
    assert key.secret not in caplog.text


async def test_a_later_start_keeps_the_key_and_adopts_it_into_an_empty_store(
    access: Access, tmp_path: Path
) -> None:
    settings = GatewaySettings(home=tmp_path / "home")
    await ensure_key(access.keys, settings)
    text = settings.key_file.read_text()
    await ensure_key(access.keys, settings)
    assert settings.key_file.read_text() == text
    other = await Store.open(f"sqlite:///{tmp_path / 'other.db'}")
    await ensure_key(Access(other).keys, settings)
    assert await Access(other).user_of(text) == "local"
    await other.close()


@pytest.mark.parametrize("content", ["", "half a k"])
async def test_a_broken_key_file_is_replaced(access: Access, tmp_path: Path, content: str) -> None:
    settings = GatewaySettings(home=tmp_path)
    settings.key_file.write_text(content)
    await ensure_key(access.keys, settings)
    assert await access.user_of(settings.key_file.read_text()) == "local"


async def test_a_revoked_key_file_is_replaced(access: Access, tmp_path: Path) -> None:
    settings = GatewaySettings(home=tmp_path)
    await ensure_key(access.keys, settings)
    revoked = Key.parse(settings.key_file.read_text())
    assert revoked is not None
    await access.keys.revoke(ADMIN, revoked.id)
    await ensure_key(access.keys, settings)
    assert await access.user_of(revoked) is None
    assert await access.user_of(settings.key_file.read_text()) == "local"


async def test_a_given_key_must_read_like_one(access: Access, tmp_path: Path) -> None:
    with pytest.raises(InvalidKey, match="wk_<id>_<secret") as refused:
        await ensure_key(access.keys, GatewaySettings(home=tmp_path, api_key="hunter2"))
    assert "hunter2" not in str(refused.value)
