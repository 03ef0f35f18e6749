"""The API key of a request."""

from aiohttp import web


def bearer_key(request: web.Request) -> str | None:
    """From the `Authorization` header; None when there is none. Never log it."""
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    return key if scheme.lower() == "bearer" and key else None
