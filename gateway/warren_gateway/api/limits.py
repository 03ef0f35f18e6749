"""What users may have, and what they have used, over HTTP."""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_schemas.base import Frozen
from warren_schemas.config import UnixTime
from warren_schemas.users.access import KeyScope, UserName
from warren_schemas.users.limits import Limits, UserDetails
from warren_schemas.users.usage import UsageBy, UsageList


class ReadUsage(Frozen):
    by: UsageBy = "user"
    """One row for each run, user or day."""
    user: UserName | None = None
    """Only of this user; others than oneself only for admins."""
    since_s: UnixTime = 0.0
    """From the day of this Unix time on, UTC."""


async def show_user(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.user_limits.show(call.caller, _user(call)))


async def set_limits(call: Call[Limits]) -> web.StreamResponse:
    return reply(await call.services.user_limits.change(_user(call), call.takes))


async def list_usage(call: Call[ReadUsage]) -> web.StreamResponse:
    takes = call.takes
    rows = await call.services.usage.listed(
        call.caller, by=takes.by, user=takes.user, since_s=takes.since_s
    )
    return reply(UsageList(usage=rows))


def _user(call: Call[Nothing] | Call[Limits]) -> str:
    return call.request.match_info["user"]


ROUTES = (
    Route(
        "GET",
        "/v1/users/{user}",
        show_user,
        takes=Nothing,
        answers=UserDetails,
        summary="Show a user with their limits: yourself, or for an admin anybody",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "POST",
        "/v1/users/{user}/limits",
        set_limits,
        takes=Limits,
        answers=UserDetails,
        summary="Set limits of a user; null is the gateway's default again, what is left out stays",
        scope=KeyScope.ADMIN,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "GET",
        "/v1/usage",
        list_usage,
        takes=ReadUsage,
        answers=UsageList,
        summary="List GPU-seconds, tokens, episodes and stored bytes by run, user or day",
        scope=KeyScope.READ,
        errors=(403, 422),
    ),
)
