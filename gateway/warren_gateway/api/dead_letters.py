"""Dead letters over HTTP: what was given up, why, and what to do about it.

Invariant: an owner sees the letters of which every item belongs to a run of theirs. Whoever holds
the gateway's own key (owner `local`) sees all of them, the unreadable ones too.
"""

import asyncio
from typing import Annotated, cast

from aiohttp import web
from pydantic import Field, JsonValue

from warren_broker.errors import Unroutable
from warren_broker.port import DeadLetter
from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.auth import LOCAL_OWNER
from warren_gateway.probe import within
from warren_schemas.base import Frozen
from warren_schemas.codec.wire import Glimpse, glimpse
from warren_schemas.http import DeadLetterDetails, DeadLetterList, DeadLetterView, Problem

ANSWER_S = 30.0
MOST_LOOKED_AT = 1000
"""Letters that one request looks at, oldest first; those behind them are seen once these are gone."""


class ListDeadLetters(Frozen):
    limit: Annotated[int, Field(ge=1, le=MOST_LOOKED_AT)] = 100
    """Most letters to list."""


async def list_dead_letters(call: Call[ListDeadLetters]) -> web.StreamResponse:
    letters = (await _visible(call))[: call.takes.limit]
    views = await asyncio.to_thread(lambda: tuple(map(_view, letters)))
    return reply(DeadLetterList(letters=views))


async def show_dead_letter(call: Call[Nothing]) -> web.StreamResponse:
    letter = await _named(call)
    seen = await asyncio.to_thread(glimpse, letter.body)
    items = cast("tuple[JsonValue, ...]", seen.items if seen else ())
    return reply(DeadLetterDetails(letter=_view(letter), items=items))


async def republish_dead_letter(call: Call[Nothing]) -> web.StreamResponse:
    letter = await _named(call)
    try:
        is_sent = await within(ANSWER_S, call.parts.broker.requeue_dead_letter(letter.id))
    except Unroutable as error:
        problem = Problem(
            code="origin_is_gone",
            message=f"The letter came from {letter.origin}, which no longer exists; it was not republished.",
            hint="Drop it, or start the consumer of that queue first.",
        )
        raise Refusal(409, problem) from error
    return _settled(letter, is_sent)


async def drop_dead_letter(call: Call[Nothing]) -> web.StreamResponse:
    letter = await _named(call)
    return _settled(letter, await within(ANSWER_S, call.parts.broker.drop_dead_letter(letter.id)))


def _settled(letter: DeadLetter, is_settled: bool) -> web.Response:
    if not is_settled:
        raise _no_such_letter(letter.id)
    return reply(_view(letter))


async def _named(call: Call[Nothing]) -> DeadLetter:
    """The letter that the path names. Raises `Refusal` 404."""
    name = call.request.match_info["letter"]
    found = [letter for letter in await _visible(call) if letter.id == name]
    if not found:
        raise _no_such_letter(name)
    return found[0]


async def _visible(call: Call[ListDeadLetters] | Call[Nothing]) -> list[DeadLetter]:
    letters = await within(ANSWER_S, call.parts.broker.dead_letters(limit=MOST_LOOKED_AT))
    if call.owner == LOCAL_OWNER:
        return letters
    runs = await asyncio.to_thread(_runs_of_each, letters)
    named = {run for found in runs.values() if found for run in found}
    owned = await call.parts.runs.owned(call.owner, named)
    return [letter for letter in letters if (found := runs[letter.id]) and found <= owned]


def _runs_of_each(letters: list[DeadLetter]) -> dict[str, set[str] | None]:
    """Reads every letter whole, which takes long when they are many."""
    return {letter.id: _runs(glimpse(letter.body)) for letter in letters}


def _runs(seen: Glimpse | None) -> set[str] | None:
    """The runs of a message; None unless each of its items names one."""
    if seen is None:
        return None
    runs = {run for run in seen.runs if isinstance(run, str)}
    return runs if len(runs) == len(seen.runs) else None


def _view(letter: DeadLetter) -> DeadLetterView:
    seen = glimpse(letter.body)
    return DeadLetterView(
        id=letter.id,
        origin=letter.origin,
        reason=letter.reason,
        first_seen_s=letter.first_seen_s,
        n_failures=letter.n_failures,
        kind=seen.kind if seen else None,
        n_items=len(seen.items) if seen else 0,
        runs=tuple(sorted(_runs(seen) or ())),
        size_bytes=len(letter.body),
    )


def _no_such_letter(name: str) -> Refusal:
    problem = Problem(
        code="no_such_dead_letter",
        message=f"There is no dead letter {name}.",
        hint="GET /v1/dead-letters lists yours.",
    )
    return Refusal(404, problem)


ROUTES = (
    Route(
        "GET",
        "/v1/dead-letters",
        list_dead_letters,
        takes=ListDeadLetters,
        answers=DeadLetterList,
        summary="List dead letters, oldest first",
        errors=(422,),
    ),
    Route(
        "GET",
        "/v1/dead-letters/{letter}",
        show_dead_letter,
        takes=Nothing,
        answers=DeadLetterDetails,
        summary="Show a dead letter with its items",
        errors=(404, 422),
    ),
    Route(
        "POST",
        "/v1/dead-letters/{letter}/republish",
        republish_dead_letter,
        takes=Nothing,
        answers=DeadLetterView,
        summary="Republish a dead letter to the queue that it came from",
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/dead-letters/{letter}/drop",
        drop_dead_letter,
        takes=Nothing,
        answers=DeadLetterView,
        summary="Drop a dead letter",
        errors=(400, 404, 413, 422),
    ),
)
