"""Who may call a route: a good key with its scope. What they change is noted before it is done.

Invariants
- A handler runs for a caller whose key was good and had the route's scope; once it is no longer good, what
  goes on for it is cut off.
- Wrong keys are counted by the address that they come from, and refused there with 429 beyond its budget; a
  right one is never refused for them.
- A request that may change something is in the audit log before it is served.
"""

import math

from aiohttp import web

from warren_gateway.access.caller import Caller, NotIdentified
from warren_gateway.access.key import without_secrets
from warren_gateway.api.problems import Refusal, status_of
from warren_gateway.api.route import NOBODY, Route
from warren_gateway.api.services import Services
from warren_gateway.bearer import bearer_key
from warren_gateway.budgets.request_rate import TooManyRequests
from warren_gateway.budgets.wrong_keys import TooManyWrongKeys
from warren_schemas.http import Problem
from warren_schemas.users.access import KeyScope

MAX_PATH = 300


async def admitted(route: Route, services: Services, request: web.Request) -> Caller:
    """Who calls. Raises `Refusal` 401, 403 and 429."""
    if route.scope == "public":
        return NOBODY
    key = bearer_key(request)
    if key is None:
        raise _unauthorized("This route needs an API key")
    try:
        caller = await services.callers.identify(key)
    except NotIdentified as error:
        raise _not_identified(services, request, error) from error
    if route.scope != "any" and not caller.may(route.scope):
        raise lacks(caller, route.scope)
    try:
        services.budgets.requests.count(caller.user, caller.requests_per_s)
    except TooManyRequests as error:
        raise _too_many(error) from error
    return caller


async def served(
    route: Route, services: Services, request: web.Request, caller: Caller
) -> web.StreamResponse:
    """Serve it; note what it was to change."""
    with services.callers.watch(caller, request.match_info.get("run")) as lost:
        if not route.is_audited:
            return await route.serve(request, services, caller, lost)
        path = without_secrets(request.rel_url.raw_path)[:MAX_PATH]  # raw: no store takes a NUL
        number = await services.audit.begin(caller, route.name, path)
        try:
            response = await route.serve(request, services, caller, lost)
        except Exception as error:
            await services.audit.end(number, status_of(error))
            raise
        await services.audit.end(number, response.status)
        return response


def _not_identified(services: Services, request: web.Request, error: NotIdentified) -> Refusal:
    try:
        services.budgets.wrong_keys.count(request.remote)
    except TooManyWrongKeys as too_many:
        return _too_many(too_many)
    return _unauthorized(str(error))


def _unauthorized(message: str) -> Refusal:
    hint = (
        "Send `Authorization: Bearer <key>` (or `X-API-Key: <key>`); the key of this machine lies in $WARREN_HOME/api-key,"
        " and the warren command takes another one from WARREN_API_KEY."
    )
    problem = Problem(code="unauthorized", message=f"{message}.", hint=hint)
    return Refusal(401, problem, {"WWW-Authenticate": "Bearer"})


def lacks(caller: Caller, scope: str) -> Refusal:
    has = ", ".join(sorted(caller.scopes)) or "no scope"
    problem = Problem(
        code="forbidden",
        message=f"This route needs a key with the scope {scope}; the key {caller.key_id} has {has}.",
        hint=_remedy(scope),
    )
    return Refusal(403, problem)


def _remedy(scope: str) -> str:
    """A key makes none that may more than itself, so nobody is told to make one for admins."""
    if scope == KeyScope.ADMIN:
        return "This is for admins: ask one, or use an admin's key."
    return "`warren keys create --help` says how to make one, with a key that may."


def _too_many(error: TooManyRequests | TooManyWrongKeys) -> Refusal:
    wait_s = math.ceil(error.wait_s)
    problem = Problem(
        code="too_many_requests", message=f"{error}.", hint=f"Go on in {wait_s} s, and more slowly."
    )
    return Refusal(429, problem, {"Retry-After": str(wait_s)})
