"""Keys, on every store."""

import asyncio
from pathlib import Path

from warren_gateway.access.callers import Callers
from warren_gateway.access.first_key import ensure_key
from warren_gateway.access.key import Key
from warren_gateway.access.keys import ApiKeys
from warren_gateway.settings import GatewaySettings
from warren_gateway.store.store import Store


async def test_a_given_key_is_adopted_and_not_written(any_store_url: str, tmp_path: Path) -> None:
    """Also when several gateways start at once with the same one."""
    store, key = await Store.open(any_store_url), Key.new()
    settings = GatewaySettings(home=tmp_path, api_key=str(key))
    await asyncio.gather(*(ensure_key(ApiKeys(store, Callers(store)), settings) for _ in range(8)))
    assert (await Callers(store).identify(str(key))).user == "local"
    assert not settings.key_file.exists()
    assert key.secret not in repr(settings)
    await store.close()
