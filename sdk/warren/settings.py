"""Where the gateway is and which key opens it.

Asked in this order: the argument, the environment (`WARREN_URL`, `WARREN_API_KEY`), and for the key
the file that a gateway on this machine writes, `$WARREN_HOME/api-key`.

The key never appears in a message, a repr or a URL.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from warren.errors import ConfigurationError

DEFAULT_URL = "http://127.0.0.1:8642"


@dataclass(frozen=True, slots=True)
class Settings:
    url: str
    """Without a slash at its end."""
    api_key: str | None = field(repr=False)
    """None where none was found."""
    key_source: str
    """For people: which of the places the key came from, or where one was looked for."""


def warren_home() -> Path:
    """`$WARREN_HOME`, or `~/.warren`: where parts on this machine keep their files."""
    return Path(os.environ.get("WARREN_HOME") or Path.home() / ".warren").expanduser()


def find_settings(url: str | None = None, api_key: str | None = None) -> Settings:
    """Fill in what was not given. Raises `ConfigurationError` for a URL or key that can't be one."""
    address = _checked_url(url or os.environ.get("WARREN_URL") or DEFAULT_URL)
    key, source = _find_key(api_key)
    return Settings(address, key, source)


def _checked_url(url: str) -> str:
    parts = _parts(url.strip())
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"{url!r} is not the address of a gateway",
            hint=f"Write it like {DEFAULT_URL}, in --url, WARREN_URL or connect(url=…).",
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError(
            "The gateway's address holds more than scheme, host, port and path",
            hint="Give the API key by WARREN_API_KEY, never inside the URL.",
        )
    return url.strip().rstrip("/")


def _parts(url: str) -> SplitResult | None:
    """None where its brackets, its port or a label of its host can't be."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
        if host.isascii():
            host.encode("idna")  # as the resolver does
    except ValueError:
        return None
    return parts


def _find_key(given: str | None) -> tuple[str | None, str]:
    if given:
        return _checked_key(given, "the argument"), "argument"
    if variable := os.environ.get("WARREN_API_KEY"):
        return _checked_key(variable, "WARREN_API_KEY"), "WARREN_API_KEY"
    path = warren_home() / "api-key"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None, f"no argument, no WARREN_API_KEY, no readable {path}"
    return (
        (_checked_key(text, str(path)), str(path)) if text.strip() else (None, f"{path} is empty")
    )


def _checked_key(key: str, place: str) -> str:
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigurationError(
            f"What stands in {place} can't be an API key",
            hint="A key is a single word of ASCII characters; copy it again.",
        )
    return key
