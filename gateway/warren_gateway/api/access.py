"""Users, API keys and the audit log over HTTP."""

from typing import Annotated

from aiohttp import web
from pydantic import Field

from warren_gateway.access.key import id_of
from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_schemas.base import Frozen
from warren_schemas.users.access import (
    AddUser,
    AuditList,
    CreateKey,
    Identity,
    KeyList,
    KeyScope,
    KeyView,
    NewKey,
    RotateKey,
    UserAdded,
    UserList,
    UserName,
    UserView,
)


class ListKeys(Frozen):
    user: UserName | None = None
    """Only keys of this user; others than one's own only for admins."""


class ListAudit(Frozen):
    user: UserName | None = None
    """Only what this user did."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    """Most entries to list."""


async def who_am_i(call: Call[Nothing]) -> web.StreamResponse:
    own = await call.services.keys.used(call.caller)
    return reply(Identity(user=call.owner, is_admin=call.caller.is_admin, key=own))


async def add_user(call: Call[AddUser]) -> web.StreamResponse:
    return reply(await call.services.users.add(call.takes), status=201)


async def list_users(call: Call[Nothing]) -> web.StreamResponse:
    return reply(UserList(users=await call.services.users.listed()))


async def disable_user(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.users.disable(_user(call)))


async def enable_user(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.users.enable(_user(call)))


async def remove_user(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.users.remove(_user(call)))


async def create_key(call: Call[CreateKey]) -> web.StreamResponse:
    return reply(await call.services.keys.create(call.caller, call.takes), status=201)


async def list_keys(call: Call[ListKeys]) -> web.StreamResponse:
    return reply(KeyList(keys=await call.services.keys.listed(call.caller, call.takes.user)))


async def rotate_key(call: Call[RotateKey]) -> web.StreamResponse:
    return reply(await call.services.keys.rotate(call.caller, _key(call), call.takes), status=201)


async def revoke_key(call: Call[Nothing]) -> web.StreamResponse:
    return reply(await call.services.keys.revoke(call.caller, _key(call)))


async def list_audit(call: Call[ListAudit]) -> web.StreamResponse:
    entries = await call.services.audit.newest(call.takes.user, call.takes.limit)
    return reply(AuditList(entries=entries))


def _user(call: Call[Nothing]) -> str:
    return call.request.match_info["user"]


def _key(call: Call[Nothing] | Call[RotateKey]) -> str:
    return id_of(call.request.match_info["key_id"])


ROUTES = (
    Route(
        "GET",
        "/v1/whoami",
        who_am_i,
        takes=Nothing,
        answers=Identity,
        summary="Show whom your key belongs to and what it may do",
        scope="any",
        errors=(404, 422),
    ),
    Route(
        "POST",
        "/v1/users",
        add_user,
        takes=AddUser,
        answers=UserAdded,
        summary="Add a user with a first key, which is shown once",
        scope=KeyScope.ADMIN,
        status=201,
        errors=(400, 409, 413, 422),
    ),
    Route(
        "GET",
        "/v1/users",
        list_users,
        takes=Nothing,
        answers=UserList,
        summary="List users by name",
        scope=KeyScope.ADMIN,
        errors=(422,),
    ),
    *(
        Route(
            "POST",
            f"/v1/users/{{user}}/{action}",
            handler,
            takes=Nothing,
            answers=UserView,
            summary=summary,
            scope=KeyScope.ADMIN,
            errors=(400, 404, 409, 413, 422),
        )
        for action, handler, summary in (
            ("disable", disable_user, "Refuse all keys of a user until they are enabled again"),
            ("enable", enable_user, "Take the keys of a disabled user again"),
            (
                "remove",
                remove_user,
                "Remove a user who has no active runs; nobody gets the name again",
            ),
        )
    ),
    Route(
        "POST",
        "/v1/keys",
        create_key,
        takes=CreateKey,
        answers=NewKey,
        summary="Create an API key, which is shown once",
        scope=KeyScope.SUBMIT,
        status=201,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "GET",
        "/v1/keys",
        list_keys,
        takes=ListKeys,
        answers=KeyList,
        summary="List API keys, newest first: yours, or for an admin all",
        scope="any",
        errors=(422,),
    ),
    Route(
        "POST",
        "/v1/keys/{key_id}/rotate",
        rotate_key,
        takes=RotateKey,
        answers=NewKey,
        summary="Create a key in the place of another, which ends at once or after an overlap",
        scope="any",
        status=201,
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/keys/{key_id}/revoke",
        revoke_key,
        takes=Nothing,
        answers=KeyView,
        summary="Revoke an API key",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "GET",
        "/v1/audit",
        list_audit,
        takes=ListAudit,
        answers=AuditList,
        summary="List who changed what, newest first",
        scope=KeyScope.ADMIN,
        errors=(422,),
    ),
)
