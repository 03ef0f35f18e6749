"""Where remote env workers connect: a WebSocket, see `warren_broker.remote.frames`.

Invariants: whoever has no good key, is no WebSocket, or would be one too many, is answered like
everybody else and gets no socket: its place is held before the socket is accepted; what goes wrong later ends the socket with a code and a sentence, and never the gateway.
"""

import logging

from aiohttp import WSCloseCode, web

from warren_broker.remote.frames import (
    HEARTBEAT_S,
    MAX_FRAME_BYTES,
    PATH,
    WORKER_HEADER,
    Welcome,
)
from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Nothing, Route
from warren_gateway.remote.session import Misconduct
from warren_gateway.until_first import until_first
from warren_schemas.http import Problem
from warren_schemas.users.access import KeyScope

CLOSE_S = 2.0
MAX_REASON_BYTES = 120
"""What fits into a closing frame."""

log = logging.getLogger(__name__)


async def connect_env_worker(call: Call[Nothing]) -> web.StreamResponse:
    socket = web.WebSocketResponse(
        timeout=CLOSE_S, heartbeat=HEARTBEAT_S, max_msg_size=MAX_FRAME_BYTES, compress=False
    )
    _require_websocket(socket, call.request)
    worker = call.request.headers.get(WORKER_HEADER)
    with call.services.remote_sessions.slots.hold(call.owner, worker):
        await socket.prepare(call.request)
        code, reason = await _converse(call, socket, worker)
        await socket.close(code=code, message=reason.encode()[:MAX_REASON_BYTES])
    return socket


async def _converse(
    call: Call[Nothing], socket: web.WebSocketResponse, worker: str | None
) -> tuple[int, str]:
    """Until it ends; the code and the reason of our close."""
    services = call.services
    try:
        serving = services.remote_sessions.serve(socket, call.owner, worker, call.lost)
        await until_first(serving, services.closing.wait())
    except Misconduct as misconduct:
        log.warning("a remote worker of %s is sent away: %s", call.owner, misconduct)
        return misconduct.code, str(misconduct)
    except (ConnectionError, TimeoutError) as error:
        log.info("a remote worker of %s is gone: %s", call.owner, error)
    return WSCloseCode.GOING_AWAY, "the gateway stops" if services.closing.is_set() else ""


def _require_websocket(socket: web.WebSocketResponse, request: web.Request) -> None:
    if not socket.can_prepare(request):
        problem = Problem(
            code="upgrade_required",
            message="This route is for remote env workers, which connect by WebSocket.",
            hint="Start one with `warren env-worker --gateway URL`; a proxy in between has to pass"
            " WebSockets on.",
        )
        raise Refusal(426, problem, {"Upgrade": "websocket", "Connection": "Upgrade"})


ROUTES = (
    Route(
        "GET",
        PATH,
        connect_env_worker,
        takes=Nothing,
        answers=Welcome,
        summary="Connect a remote env worker by WebSocket; the schema is that of the first frame",
        scope=KeyScope.ENV_WORKER,
        status=101,
        errors=(422, 426, 429),
        media_type="application/octet-stream",
    ),
)
