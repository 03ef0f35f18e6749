"""Sessions of Tinker's clients, and what the clients ask before they open one."""

from collections.abc import Iterator

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, reply
from warren_gateway.api.tinker.errors import invalid, no_such
from warren_gateway.api.tinker.route import tinker_route
from warren_gateway.tinker.sessions import NoSuchSession, TooManySessions
from warren_gateway.tinker.training import REFUSED, STABLE_REINFORCE
from warren_schemas.base_models.names import is_uploaded
from warren_schemas.tinker.account import ProjectNamed, SearchSessions, SessionsFound
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
from warren_schemas.users.access import KeyScope

_GONE = 410
"""Ends a client's heartbeats."""


async def tinker_health(call: Call[Nothing]) -> web.StreamResponse:
    return reply(TinkerHealth())


async def client_config(call: Call[Anything]) -> web.StreamResponse:
    chunk_mb = call.services.tinker.options.tinker_chunk_mb
    return reply(ClientConfig(fwdbwd_max_chunk_bytes_count=round(chunk_mb * 1_000_000)))


async def client_dynamic_config(call: Call[Anything]) -> web.StreamResponse:
    return reply(DynamicConfig())


async def send_telemetry(call: Call[Anything]) -> web.StreamResponse:
    """Nothing of it is kept or logged: it may hold headers with keys."""
    return reply(Accepted())


async def server_capabilities(call: Call[Nothing]) -> web.StreamResponse:
    """Those whose names are ids of models online."""
    trainable, sampleable = set(call.services.tinker.trainable()), set(call.services.served.offered)
    names = sorted(base for base in trainable | sampleable if not is_uploaded(base))
    models = [
        SupportedModel(model_name=base, trainable=base in trainable, sampleable=base in sampleable)
        for base in names
    ]
    return reply(ServerCapabilities(supported_models=tuple(models)))


async def create_session(call: Call[CreateSession]) -> web.StreamResponse:
    try:
        row = await call.services.tinker.sessions.create(call.owner, call.takes)
    except TooManySessions as error:
        raise invalid(f"{error}") from error
    return reply(SessionCreated(session_id=row.id, info_message=_news(call)))


def _news(call: Call[CreateSession]) -> str | None:
    """What a client had better know from the beginning; most show the state of a queue late, or nowhere."""
    news = [*_back_pressure(call)]
    other = call.services.tinker.options.tinker_stable_reinforce
    if other != REFUSED:
        news.append(f"Who asks for the loss {STABLE_REINFORCE} gets {other}.")
    return " ".join(news) or None


def _back_pressure(call: Call[CreateSession]) -> Iterator[str]:
    """What it will have to wait for."""
    if not call.services.tinker.trainable():
        yield "No trainer takes models now: they wait for one."
    if n := call.services.tinker.n_queued():
        yield f"{n} {'job waits' if n == 1 else 'jobs wait'} for a trainer already."
    if not call.services.served.offered:
        yield "No sampler answers now: sampling waits for one."


async def session_heartbeat(call: Call[SessionNamed]) -> web.StreamResponse:
    session_id = call.takes.session_id
    try:
        await call.services.tinker.sessions.heard(call.owner, session_id)
        await call.services.tinker.models.heard(call.viewer, session_id)
    except NoSuchSession as error:
        raise no_such("session", session_id, _GONE) from error
    return reply(SessionHeartbeat())


async def finish_session(call: Call[FinishSession]) -> web.StreamResponse:
    session_id = call.request.match_info["session"]
    try:
        reason = call.takes.reason.type
        await call.services.tinker.sessions.finish(call.owner, session_id, reason)
    except NoSuchSession as error:
        raise no_such("session", session_id) from error
    if not call.caller.may(KeyScope.SUBMIT):
        return reply(Empty())  # its models belong to whoever may train
    for trained in await call.services.tinker.models.of_session(call.viewer, session_id):
        await call.services.models.close(call.viewer, trained.id)
    return reply(Empty())


async def assign_project(call: Call[ProjectNamed]) -> web.StreamResponse:
    """A project is a word by which sessions are found, and what they store is counted."""
    session_id = call.request.match_info["session"]
    try:
        await call.services.tinker.sessions.assign(call.owner, session_id, call.takes.project_id)
    except NoSuchSession as error:
        raise no_such("session", session_id) from error
    return reply(Empty())


async def search_sessions(call: Call[SearchSessions]) -> web.StreamResponse:
    return reply(await call.services.tinker.sessions.search(call.owner, call.takes))


async def list_sessions(call: Call[ListAsked]) -> web.StreamResponse:
    takes = call.takes
    ids = await call.services.tinker.sessions.listed(call.owner, takes.limit, takes.offset)
    return reply(SessionList(sessions=tuple(ids)))


async def show_session(call: Call[ScopeAsked]) -> web.StreamResponse:
    session_id, sessions = call.request.match_info["session"], call.services.tinker.sessions
    try:
        row = await sessions.find(call.owner, session_id)
        samplers = await sessions.samplers(call.owner, session_id)
        trained = await call.services.tinker.models.of_session(call.viewer, session_id)
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
    tinker_route(
        "GET",
        "healthz",
        tinker_health,
        takes=Nothing,
        answers=TinkerHealth,
        summary="Show that the gateway answers",
        scope="public",
    ),
    tinker_route(
        "POST",
        "client/config",
        client_config,
        takes=Anything,
        answers=ClientConfig,
        summary="Show how a client should behave",
        is_routine=True,
    ),
    tinker_route(
        "POST",
        "client/dynamic_config",
        client_dynamic_config,
        takes=Anything,
        answers=DynamicConfig,
        summary="Show how a client should behave for now",
        is_routine=True,
    ),
    tinker_route(
        "POST",
        "telemetry",
        send_telemetry,
        takes=Anything,
        answers=Accepted,
        summary="Take a client's telemetry, of which nothing is kept",
        is_routine=True,
    ),
    tinker_route(
        "GET",
        "get_server_capabilities",
        server_capabilities,
        takes=Nothing,
        answers=ServerCapabilities,
        summary="List the base models online",
    ),
    tinker_route(
        "POST",
        "create_session",
        create_session,
        takes=CreateSession,
        answers=SessionCreated,
        summary="Begin a client's session",
    ),
    tinker_route(
        "POST",
        "session_heartbeat",
        session_heartbeat,
        takes=SessionNamed,
        answers=SessionHeartbeat,
        summary="Tell that a session's client is there",
        errors=(410,),
        is_routine=True,
    ),
    tinker_route(
        "POST",
        "sessions/{session}/finish",
        finish_session,
        takes=FinishSession,
        answers=Empty,
        summary="End a session",
        errors=(404,),
    ),
    tinker_route(
        "PUT",
        "sessions/{session}/project",
        assign_project,
        takes=ProjectNamed,
        answers=Empty,
        summary="Put a session into a project",
        errors=(404,),
    ),
    tinker_route(
        "POST",
        "sessions/search",
        search_sessions,
        takes=SearchSessions,
        answers=SessionsFound,
        summary="Find sessions among yours",
        is_routine=True,
    ),
    tinker_route(
        "GET",
        "sessions",
        list_sessions,
        takes=ListAsked,
        answers=SessionList,
        summary="List your sessions",
    ),
    tinker_route(
        "GET",
        "sessions/{session}",
        show_session,
        takes=ScopeAsked,
        answers=Session,
        summary="Show a session",
        errors=(404,),
    ),
)
