"""Which URLs a prefix covers.

Invariant: what is compared is the very URL that is requested, as the HTTP client understands it: two
parsers never read two hosts into one text.
"""

from urllib.parse import unquote

from yarl import URL


def parsed(url: str) -> URL:
    """Raises `ValueError` for what is no plain URL of a service."""
    if any(ord(char) <= 32 or char == "\\" for char in url):
        raise ValueError("it has spaces, control characters or backslashes")
    found = URL(url)
    if found.scheme not in ("http", "https") or not found.host or not found.port:
        raise ValueError("expected http(s)://host[:port]/path")
    if found.user is not None or found.password is not None:
        raise ValueError("it has a user or a password; name a secret with key_variable")
    if {".", ".."} & set(unquote(url.partition("?")[0]).split("/")):
        raise ValueError("its path has . or .. in it")
    return found


def covers(prefix: str, url: URL) -> bool:
    """Same scheme, host and port; the path goes on where the prefix's ends."""
    allowed = URL(prefix)
    if (allowed.scheme, allowed.port) != (url.scheme, url.port) or _host(allowed) != _host(url):
        return False
    path = allowed.raw_path.rstrip("/")
    return url.raw_path == path or url.raw_path.startswith(f"{path}/")


def _host(url: URL) -> str:
    return (url.host or "").lower().rstrip(".")
