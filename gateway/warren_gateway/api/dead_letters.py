"""Dead letters over HTTP: what was given up, why, and what to do about it.

Invariant: an owner sees the letters of which every item belongs to a run of theirs. An admin
sees all of them, the unreadable ones too. However large letters
are, and however many, a request holds the body of one at a time.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, cast

from aiohttp import web
from pydantic import Field, JsonValue

from warren_broker.errors import Unroutable
from warren_broker.port import DeadLetter
from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.dead_letters import MOST_BYTES, MOST_LOOKED_AT, runs_named
from warren_gateway.probe import within
from warren_schemas.base import Frozen
from warren_schemas.codec.wire import glimpse
from warren_schemas.http import DeadLetterDetails, DeadLetterList, DeadLetterView, Problem
from warren_schemas.users.access import KeyScope

ANSWER_S = 30.0


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was seen of a letter; its body is gone."""

    view: DeadLetterView
    runs: frozenset[str] | None
    """Whose it is; None unless each of its items names a run."""
    items: tuple[JsonValue, ...]


class ListDeadLetters(Frozen):
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """Most letters to list."""


async def list_dead_letters(call: Call[ListDeadLetters]) -> web.StreamResponse:
    letters = (await _visible(call, _outline))[: call.takes.limit]
    return reply(DeadLetterList(letters=tuple(letter.view for letter in letters)))


async def show_dead_letter(call: Call[Nothing]) -> web.StreamResponse:
    letter = await _named(call)
    return reply(DeadLetterDetails(letter=letter.view, items=letter.items))


async def republish_dead_letter(call: Call[Nothing]) -> web.StreamResponse:
    letter = await _named(call)
    try:
        is_sent = await within(ANSWER_S, call.services.broker.requeue_dead_letter(letter.view.id))
    except Unroutable as error:
        problem = Problem(
            code="origin_is_gone",
            message=f"The letter came from {letter.view.origin}, which no longer exists; it was not republished.",
            hint="Drop it, or start the consumer of that queue first.",
        )
        raise Refusal(409, problem) from error
    return _settled(letter, is_sent)


async def drop_dead_letter(call: Call[Nothing]) -> web.StreamResponse:
    letter = await _named(call)
    return _settled(
        letter, await within(ANSWER_S, call.services.broker.drop_dead_letter(letter.view.id))
    )


def _settled(letter: _Seen, is_settled: bool) -> web.Response:
    if not is_settled:
        raise _no_such_letter(letter.view.id)
    return reply(letter.view)


async def _named(call: Call[Nothing]) -> _Seen:
    """The letter that the path names. Raises `Refusal` 404."""
    name = call.request.match_info["letter"]
    found = await _visible(call, lambda letter: _seen(letter) if letter.id == name else None)
    if not found:
        raise _no_such_letter(name)
    return found[0]


async def _visible(
    call: Call[ListDeadLetters] | Call[Nothing], look: Callable[[DeadLetter], _Seen | None]
) -> list[_Seen]:
    looking = call.services.broker.look_at_dead_letters(
        look, limit=MOST_LOOKED_AT, max_bytes=MOST_BYTES
    )
    letters = await within(ANSWER_S, looking)
    if call.caller.is_admin:
        return letters
    named = {run for letter in letters for run in letter.view.runs}
    owned = await call.services.runs.owned(call.viewer, named)
    return [letter for letter in letters if letter.runs and letter.runs <= owned]


def _outline(letter: DeadLetter) -> _Seen:
    """All but its items, which may be megabytes."""
    return replace(_seen(letter), items=())


def _seen(letter: DeadLetter) -> _Seen:
    seen = glimpse(letter.body)
    view = DeadLetterView(
        id=letter.id,
        origin=letter.origin,
        reason=letter.reason,
        first_seen_s=letter.first_seen_s,
        n_failures=letter.n_failures,
        kind=seen.kind if seen else None,
        n_items=len(seen.items) if seen else 0,
        runs=tuple(sorted(runs_named(seen) or ())),
        size_bytes=len(letter.body),
    )
    return _Seen(view, runs_named(seen), cast("tuple[JsonValue, ...]", seen.items if seen else ()))


def _no_such_letter(name: str) -> Refusal:
    problem = Problem(
        code="no_such_dead_letter",
        message=f"There is no dead letter {name}.",
        hint="`warren dead-letters ls` lists yours.",
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
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "GET",
        "/v1/dead-letters/{letter}",
        show_dead_letter,
        takes=Nothing,
        answers=DeadLetterDetails,
        summary="Show a dead letter with its items",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "POST",
        "/v1/dead-letters/{letter}/republish",
        republish_dead_letter,
        takes=Nothing,
        answers=DeadLetterView,
        summary="Republish a dead letter to the queue that it came from",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/dead-letters/{letter}/drop",
        drop_dead_letter,
        takes=Nothing,
        answers=DeadLetterView,
        summary="Drop a dead letter",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
)
