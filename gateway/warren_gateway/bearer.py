"""The API key of a request."""

from aiohttp import web


def bearer_key(request: web.Request) -> str | None:
    """From `Authorization`, or from `X-API-Key`, as some clients send it; None when there is none. Never log it."""
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and key:
        return key
    return request.headers.get("X-API-Key") or None
