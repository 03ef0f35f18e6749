"""What users of Tinker's clients have used and stored, and what was done: for their own tools."""

from datetime import UTC, datetime, timedelta

from aiohttp import web

from warren_gateway.api.route import Call, reply
from warren_gateway.api.tinker.errors import invalid
from warren_gateway.api.tinker.route import tinker_route
from warren_gateway.store.tables import AuditRow
from warren_gateway.tinker.accounts import TooMany
from warren_schemas.tinker.account import (
    AuditAnswer,
    AuditAsked,
    AuditDetails,
    AuditEvent,
    StorageAnswer,
    StorageAsked,
    UsageAsked,
    UsageEvents,
)
from warren_schemas.users.access import KeyScope

_RESOURCES = {"checkpoints": "checkpoint", "projects": "project"}
"""What the names of routes hold that change them; nothing here is of teams or organizations."""


async def show_usage(call: Call[UsageAsked]) -> web.StreamResponse:
    begin, end = call.takes.starting_on, call.takes.ending_before
    if not begin < end:
        raise invalid("starting_on must be before ending_before")
    accounts = call.services.tinker.accounts
    try:
        used = await accounts.used(call.viewer, begin.timestamp(), end.timestamp())
    except TooMany as error:
        raise invalid(f"{error}") from error
    return reply(UsageEvents(data=tuple(used)))


async def show_storage(call: Call[StorageAsked]) -> web.StreamResponse:
    stored = await call.services.tinker.accounts.stored(call.viewer, call.takes.project_id)
    return reply(StorageAnswer(data=tuple(stored)))


async def show_audit(call: Call[AuditAsked]) -> web.StreamResponse:
    takes = call.takes
    try:
        day = datetime.now(UTC) if takes.day is None else datetime.fromisoformat(takes.day)
    except ValueError as error:
        raise invalid(f"There is no day {takes.day}") from error
    begin = day.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=UTC)
    end = begin + timedelta(days=1)
    asked = takes.event_type
    about = None if asked == "all" else _RESOURCES.get(asked, asked)
    accounts = call.services.tinker.accounts
    try:
        rows = await accounts.audited(begin.timestamp(), end.timestamp(), about)
    except TooMany as error:
        raise invalid(f"{error}") from error
    return reply(AuditAnswer(entries=tuple(map(_event, rows))))


def _event(row: AuditRow) -> AuditEvent:
    return AuditEvent(
        timestamp=datetime.fromtimestamp(row.at_s, UTC),
        event=row.action,
        event_details=AuditDetails(user=row.user, key=row.key, path=row.path, status=row.status),
    )


ROUTES = (
    tinker_route(
        "GET",
        "billing/usage/events",
        show_usage,
        takes=UsageAsked,
        answers=UsageEvents,
        summary="Show what was used, by days",
        scope=KeyScope.READ,
        errors=(400,),
    ),
    tinker_route(
        "GET",
        "billing/usage/checkpoints/current",
        show_storage,
        takes=StorageAsked,
        answers=StorageAnswer,
        summary="Show what is stored, by projects",
        scope=KeyScope.READ,
    ),
    tinker_route(
        "GET",
        "audit",
        show_audit,
        takes=AuditAsked,
        answers=AuditAnswer,
        summary="Show what was asked to be changed on a day",
        scope=KeyScope.ADMIN,
        errors=(400,),
    ),
)
