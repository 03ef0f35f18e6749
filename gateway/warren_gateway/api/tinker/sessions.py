"""Sessions of Tinker's clients, and what the clients ask before they open one."""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.api.tinker.errors import no_such
from warren_gateway.tinker.sessions import NoSuchSession
from warren_schemas.tinker.answers import (
    Accepted,
    ClientConfig,
    DynamicConfig,
    Empty,
    ServerCapabilities,
    Session,
    SessionCreated,
    SessionHeartbeat,
    SessionList,
    SupportedModel,
    TinkerHealth,
)
from warren_schemas.tinker.requests import (
    Anything,
    CreateSession,
    FinishSession,
    ListAsked,
    ScopeAsked,
    SessionNamed,
)

_GONE = 410
"""Ends a client's heartbeats."""


async def tinker_health(call: Call[Nothing]) -> web.StreamResponse:
    return reply(TinkerHealth())


async def client_config(call: Call[Anything]) -> web.StreamResponse:
    return reply(ClientConfig())


async def client_dynamic_config(call: Call[Anything]) -> web.StreamResponse:
    return reply(DynamicConfig())


async def send_telemetry(call: Call[Anything]) -> web.StreamResponse:
    """Nothing of it is kept or logged: it may hold headers with keys."""
    return reply(Accepted())


async def server_capabilities(call: Call[Nothing]) -> web.StreamResponse:
    """Those whose names are ids of models online."""
    trainable, sampleable = set(call.parts.tinker.trainable()), set(call.parts.served.offered)
    models = [
        SupportedModel(model_name=base, trainable=base in trainable, sampleable=base in sampleable)
        for base in sorted(trainable | sampleable)
    ]
    return reply(ServerCapabilities(supported_models=tuple(models)))


async def create_session(call: Call[CreateSession]) -> web.StreamResponse:
    row = await call.parts.tinker.sessions.create(call.owner, call.takes)
    return reply(SessionCreated(session_id=row.id))


async def session_heartbeat(call: Call[SessionNamed]) -> web.StreamResponse:
    session_id = call.takes.session_id
    try:
        await call.parts.tinker.sessions.heard(call.owner, session_id)
        await call.parts.tinker.models.heard(call.viewer, session_id)
    except NoSuchSession as error:
        raise no_such("session", session_id, _GONE) from error
    return reply(SessionHeartbeat())


async def finish_session(call: Call[FinishSession]) -> web.StreamResponse:
    session_id = call.request.match_info["session"]
    try:
        await call.parts.tinker.sessions.finish(call.owner, session_id)
    except NoSuchSession as error:
        raise no_such("session", session_id) from error
    for trained in await call.parts.tinker.models.of_session(call.viewer, session_id):
        await call.parts.models.close(call.viewer, trained.id)
    return reply(Empty())


async def list_sessions(call: Call[ListAsked]) -> web.StreamResponse:
    takes = call.takes
    ids = await call.parts.tinker.sessions.listed(call.owner, takes.limit, takes.offset)
    return reply(SessionList(sessions=tuple(ids)))


async def show_session(call: Call[ScopeAsked]) -> web.StreamResponse:
    session_id, sessions = call.request.match_info["session"], call.parts.tinker.sessions
    try:
        row = await sessions.find(call.owner, session_id)
        samplers = await sessions.samplers(call.owner, session_id)
        trained = await call.parts.tinker.models.of_session(call.viewer, session_id)
    except NoSuchSession as error:
        raise no_such("session", session_id) from error
    return reply(
        Session(
            training_run_ids=tuple(one.name for one in trained),
            sampler_ids=tuple(samplers),
            user_metadata=row.metadata_,
            display_name=row.display_name,
        )
    )


ROUTES = (
    Route(
        "GET",
        "/api/v1/healthz",
        tinker_health,
        takes=Nothing,
        answers=TinkerHealth,
        summary="Show that the gateway answers (Tinker-compatible)",
        scope="public",
        errors=(422,),
    ),
    Route(
        "POST",
        "/api/v1/client/config",
        client_config,
        takes=Anything,
        answers=ClientConfig,
        summary="Show how a client should behave (Tinker-compatible)",
        scope="any",
        errors=(400, 413, 422),
    ),
    Route(
        "POST",
        "/api/v1/client/dynamic_config",
        client_dynamic_config,
        takes=Anything,
        answers=DynamicConfig,
        summary="Show how a client should behave for now (Tinker-compatible)",
        scope="any",
        errors=(400, 413, 422),
    ),
    Route(
        "POST",
        "/api/v1/telemetry",
        send_telemetry,
        takes=Anything,
        answers=Accepted,
        summary="Take a client's telemetry, of which nothing is kept (Tinker-compatible)",
        scope="any",
        errors=(400, 413, 422),
    ),
    Route(
        "GET",
        "/api/v1/get_server_capabilities",
        server_capabilities,
        takes=Nothing,
        answers=ServerCapabilities,
        summary="List the base models online (Tinker-compatible)",
        scope="any",
        errors=(422,),
    ),
    Route(
        "POST",
        "/api/v1/create_session",
        create_session,
        takes=CreateSession,
        answers=SessionCreated,
        summary="Begin a client's session (Tinker-compatible)",
        scope="any",
        errors=(400, 413, 422),
    ),
    Route(
        "POST",
        "/api/v1/session_heartbeat",
        session_heartbeat,
        takes=SessionNamed,
        answers=SessionHeartbeat,
        summary="Tell that a session's client is there (Tinker-compatible)",
        scope="any",
        errors=(400, 410, 413, 422),
    ),
    Route(
        "POST",
        "/api/v1/sessions/{session}/finish",
        finish_session,
        takes=FinishSession,
        answers=Empty,
        summary="End a session (Tinker-compatible)",
        scope="any",
        errors=(400, 404, 413, 422),
    ),
    Route(
        "GET",
        "/api/v1/sessions",
        list_sessions,
        takes=ListAsked,
        answers=SessionList,
        summary="List your sessions (Tinker-compatible)",
        scope="any",
        errors=(422,),
    ),
    Route(
        "GET",
        "/api/v1/sessions/{session}",
        show_session,
        takes=ScopeAsked,
        answers=Session,
        summary="Show a session (Tinker-compatible)",
        scope="any",
        errors=(404, 422),
    ),
)
