"""API keys: adopted, found, refused, revoked; and the first key of a machine."""

import logging
from pathlib import Path

import pytest
from sqlmodel import Session, select

from warren_gateway.auth import ApiKeys, InvalidKey, Key
from warren_gateway.first_key import ensure_key
from warren_gateway.settings import GatewaySettings
from warren_gateway.store.store import Store
from warren_gateway.store.tables import ApiKey


async def test_a_key_leads_to_its_owner(store: Store) -> None:
    keys, key = ApiKeys(store), Key.new()
    await keys.add(key, "ann")
    assert await keys.owner(str(key)) == "ann"
    assert await keys.owner(f" {key}\n") == "ann"


@pytest.mark.parametrize("text", ["", "wk_", "wk_abcd_short", "Bearer x", "wk_ab/cd_" + "a" * 43])
async def test_what_does_not_read_like_a_key_is_refused(store: Store, text: str) -> None:
    assert await ApiKeys(store).owner(text) is None


async def test_a_wrong_secret_and_an_unknown_id_are_refused(store: Store) -> None:
    keys, key = ApiKeys(store), Key.new()
    await keys.add(key, "ann")
    assert await keys.owner(str(Key(key.id, Key.new().secret))) is None
    assert await keys.owner(str(Key.new())) is None


async def test_a_revoked_key_is_refused_at_once_and_can_not_come_back(store: Store) -> None:
    keys, key = ApiKeys(store), Key.new()
    await keys.add(key, "ann")
    assert await keys.owner(str(key)) == "ann"
    await keys.revoke(key.id)
    assert await keys.owner(str(key)) is None
    with pytest.raises(InvalidKey, match="revoked"):
        await keys.add(key, "ann")


async def test_an_id_can_not_be_taken_over(store: Store) -> None:
    keys, key = ApiKeys(store), Key.new()
    await keys.add(key, "ann")
    with pytest.raises(InvalidKey, match="another key"):
        await keys.add(Key(key.id, Key.new().secret), "bob")
    assert await keys.owner(str(key)) == "ann"


async def test_the_store_is_asked_once_for_many_requests(store: Store) -> None:
    keys, key = ApiKeys(store), Key.new()
    await keys.add(key, "ann")
    assert await keys.owner(str(key)) == "ann"
    await store.close()
    assert await keys.owner(str(key)) == "ann"


async def test_the_store_holds_no_secret(store: Store, tmp_path: Path) -> None:
    keys, key = ApiKeys(store), Key.new()
    await keys.add(key, "ann")
    row = (await store.transact(_all_keys))[0]
    assert key.secret not in row.model_dump_json()
    assert key.secret not in repr(key)


async def test_the_first_start_writes_a_key_that_works(
    store: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings, keys = GatewaySettings(home=tmp_path / "home"), ApiKeys(store)
    with caplog.at_level(logging.DEBUG):
        await ensure_key(keys, settings)
    text = settings.key_file.read_text()
    key = Key.parse(text)
    assert key is not None
    assert settings.key_file.stat().st_mode & 0o777 == 0o600
    assert await keys.owner(text) == "local"
    assert str(settings.key_file) in caplog.text
    assert key.secret not in caplog.text


async def test_a_later_start_keeps_the_key_and_adopts_it_into_an_empty_store(
    store: Store, tmp_path: Path
) -> None:
    settings = GatewaySettings(home=tmp_path / "home")
    await ensure_key(ApiKeys(store), settings)
    text = settings.key_file.read_text()
    await ensure_key(ApiKeys(store), settings)
    assert settings.key_file.read_text() == text
    other = await Store.open(f"sqlite:///{tmp_path / 'other.db'}")
    await ensure_key(ApiKeys(other), settings)
    assert await ApiKeys(other).owner(text) == "local"
    await other.close()


@pytest.mark.parametrize("content", ["", "half a k"])
async def test_a_broken_key_file_is_replaced(store: Store, tmp_path: Path, content: str) -> None:
    settings = GatewaySettings(home=tmp_path)
    settings.key_file.write_text(content)
    await ensure_key(ApiKeys(store), settings)
    assert await ApiKeys(store).owner(settings.key_file.read_text()) == "local"


async def test_a_revoked_key_file_is_replaced(store: Store, tmp_path: Path) -> None:
    settings, keys = GatewaySettings(home=tmp_path), ApiKeys(store)
    await ensure_key(keys, settings)
    revoked = Key.parse(settings.key_file.read_text())
    assert revoked is not None
    await keys.revoke(revoked.id)
    await ensure_key(keys, settings)
    assert await keys.owner(str(revoked)) is None
    assert await keys.owner(settings.key_file.read_text()) == "local"


async def test_a_given_key_must_read_like_one(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidKey, match="wk_<id>_<secret") as refused:
        await ensure_key(ApiKeys(store), GatewaySettings(home=tmp_path, api_key="hunter2"))
    assert "hunter2" not in str(refused.value)


def _all_keys(session: Session) -> list[ApiKey]:
    return list(session.exec(select(ApiKey)))
