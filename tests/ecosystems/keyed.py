"""A gate before a foreign server's app, which opens to one key. Servers import it in environments that have nothing of ours."""

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

KEY = "sk-0123456789"

_Message = MutableMapping[str, Any]
_App = Callable[
    [_Message, Callable[[], Awaitable[_Message]], Callable[[_Message], Awaitable[None]]],
    Awaitable[None],
]


class Keyed:
    def __init__(self, app: _App) -> None:
        self._app = app

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        headers: Iterable[tuple[bytes, bytes]] = scope.get("headers", ())
        if (b"authorization", f"Bearer {KEY}".encode()) in headers or scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b""})
