"""The first key: what a person on this machine calls the gateway with."""

import asyncio
import logging
import os
from pathlib import Path

from warren_gateway.access.key import InvalidKey, Key
from warren_gateway.access.keys import ApiKeys
from warren_gateway.access.rows import LOCAL_USER
from warren_gateway.settings import GatewaySettings

log = logging.getLogger(__name__)


async def ensure_key(keys: ApiKeys, settings: GatewaySettings) -> None:
    """Adopt the key of the settings, or that of the key file; make one if there is neither.

    Raises `InvalidKey` for a key in the settings that can't be used, `StoreUnavailable`, `OSError`
    when the key file can't be read or written.
    """
    if settings.api_key is not None:
        await keys.add(_parsed(settings.api_key), LOCAL_USER)
        log.info("the API key is the one that was given")
        return
    try:
        await keys.add(await asyncio.to_thread(_read, settings.key_file), LOCAL_USER)
    except InvalidKey as error:
        log.info("%s: making one", error)
        await keys.add(await asyncio.to_thread(_write_new, settings.key_file), LOCAL_USER)
    log.info("the API key lies in %s", settings.key_file)


def _parsed(text: str) -> Key:
    key = Key.parse(text)
    if key is None:
        raise InvalidKey(
            "the given API key does not read like wk_<id>_<secret of 32 or more characters>"
        )
    return key


def _read(path: Path) -> Key:
    try:
        key = Key.parse(path.read_text())
    except FileNotFoundError:
        key = None
    if key is None:
        raise InvalidKey("there is no API key yet")
    return key


def _write_new(path: Path) -> Key:
    """Written beside and moved into place: whoever reads the file finds a whole key or none."""
    key = Key.new()
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"{key}\n")
    beside.replace(path)
    return key
