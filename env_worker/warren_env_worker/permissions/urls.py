"""Which URLs a prefix covers.

Invariants: what is compared is the very URL that is requested, as the HTTP client understands it: two
parsers never read two hosts into one text; and no server finds a way up in its path, however it
decodes it.
"""

import re
from urllib.parse import unquote

from yarl import URL

MAX_ENCODINGS = 3
"""So many times may a path be encoded; decoding costs its whole length each time."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


def parsed(url: str) -> URL:
    """Raises `ValueError` for what is no plain URL of a service."""
    if any(ord(char) <= 32 or char == "\\" for char in url):
        raise ValueError("it has spaces, control characters or backslashes")
    found = URL(url)
    if found.scheme not in ("http", "https") or not found.host or not found.port:
        raise ValueError("expected http(s)://host[:port]/path")
    if found.user is not None or found.password is not None:
        raise ValueError("it has a user or a password; name a secret with key_variable")
    path = _decoded(url.partition("?")[0])
    if _CONTROL.search(path):
        raise ValueError("its path has control characters or backslashes in it")
    if any(_without_parameters(segment) in (".", "..") for segment in path.split("/")):
        raise ValueError("its path has . or .. in it")
    return found


def _decoded(path: str) -> str:
    """The path decoded until nothing is encoded any more: a server behind a proxy may decode it twice."""
    for _ in range(MAX_ENCODINGS + 1):
        try:
            decoded = unquote(path, errors="strict")
        except UnicodeDecodeError as error:
            raise ValueError("its path is not encoded as UTF-8") from error
        if decoded == path:
            return path
        path = decoded
    raise ValueError(f"its path is encoded more than {MAX_ENCODINGS} times over")


def _without_parameters(segment: str) -> str:
    """Some servers take `..;x` for `..`."""
    return re.split("[;?#]", segment, maxsplit=1)[0].strip()


def covers(prefix: str, url: URL) -> bool:
    """Same scheme, host and port; the path goes on where the prefix's ends."""
    allowed = URL(prefix)
    if (allowed.scheme, allowed.port) != (url.scheme, url.port) or _host(allowed) != _host(url):
        return False
    path = allowed.raw_path.rstrip("/")
    return url.raw_path == path or url.raw_path.startswith(f"{path}/")


def _host(url: URL) -> str:
    return (url.host or "").lower().rstrip(".")
