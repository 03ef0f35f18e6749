"""Answers as server-sent events, in the form of ORS: a number first, then the answer in pieces, or an error."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import orjson
from aiohttp import ClientConnectionResetError, web

from warren_env_worker.ors_server.session import Answer
from warren_env_worker.served_episode import EpisodeFailed

PING_S = 10.0
PIECE_CHARS = 4096
UNKNOWN_CALL = "unknown task_id"
"""The words of ORS's own server, by which clients know."""

Event = tuple[str, str]
_HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


def new_session_events(number: str) -> Sequence[Event]:
    return (("task_id", number), ("end", ""))


async def call_events(
    number: str, running: "asyncio.Task[Answer | EpisodeFailed] | None"
) -> AsyncIterator[Event | None]:
    """Of a call, however often it is asked for; None where there is nothing to tell for a while."""
    if running is None:
        yield "error", UNKNOWN_CALL
        return
    yield "task_id", number
    while not (await asyncio.wait({running}, timeout=PING_S))[0]:
        yield None
    answer = running.result()
    if isinstance(answer, EpisodeFailed):
        yield "error", " ".join(str(answer).split())
        return
    for event in _pieces(orjson.dumps(answer).decode()):
        yield event


async def stream(request: web.Request, events: AsyncIterator[Event | None]) -> web.StreamResponse:
    """To a client that may leave at any time: what runs goes on."""
    response = web.StreamResponse(headers=_HEADERS)
    try:
        await response.prepare(request)
        async for event in events:
            await response.write(_as_bytes(event))
        await response.write_eof()
    except (ClientConnectionResetError, ConnectionResetError):
        pass
    return response


def _pieces(text: str) -> Sequence[Event]:
    pieces = [text[at : at + PIECE_CHARS] for at in range(0, len(text), PIECE_CHARS)]
    *before, last = pieces
    return [*(("chunk", piece) for piece in before), ("end", last)]


def _as_bytes(event: Event | None) -> bytes:
    if event is None:
        return b": ping\r\n\r\n"
    name, data = event
    return f"event: {name}\r\ndata: {data}\r\n\r\n".encode()
