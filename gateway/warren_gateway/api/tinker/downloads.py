"""Files of checkpoints and timelines of sessions, behind URLs that need no key.

Invariant: a URL is given to whoever may read what it leads to, for a while; what is deleted meanwhile, or shared no more, is
gone for it.
"""

import asyncio
from datetime import UTC, datetime
from urllib.parse import urlencode

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, reply
from warren_gateway.api.sending import readable, refusing, sent, sent_file
from warren_gateway.api.tinker.errors import PREFIX, no_such
from warren_gateway.api.tinker.route import tinker_route
from warren_gateway.api.tinker.saved import CHECKPOINT, named_of_any, require_kept
from warren_gateway.tinker.downloads import Grant, NoSuchDownload, SavedWeightsFolder
from warren_gateway.tinker.sessions import NoSuchSession
from warren_gateway.tinker.tar import tar_bytes, tar_of
from warren_gateway.tinker.tracing import timeline
from warren_schemas.files import FileView, FolderView, NamedFolder
from warren_schemas.tinker.account import ArchiveUrl, DownloadUrls, TraceExport
from warren_schemas.tinker.requests import DownloadAsked
from warren_schemas.users.access import KeyScope


async def archive_url(call: Call[Nothing]) -> web.StreamResponse:
    grant, _ = await _granted(call)
    return reply(ArchiveUrl(url=_url(call, grant), expires=_expires(grant)))


async def external_weights_urls(call: Call[Nothing]) -> web.StreamResponse:
    grant, folder = await _granted(call)
    urls = {file.name: _url(call, grant, file.name) for file in folder.files}
    return reply(DownloadUrls(urls=urls, expires=_expires(grant)))


async def export_trace(call: Call[Nothing]) -> web.StreamResponse:
    session_id = call.request.match_info["session"]
    try:
        await call.services.tinker.sessions.find(call.owner, session_id)
    except NoSuchSession as error:
        raise no_such("session", session_id) from error
    grant = await call.services.tinker.downloads.grant(call.owner, session_id=session_id)
    return reply(TraceExport(url=_url(call, grant)))


async def download(call: Call[DownloadAsked]) -> web.StreamResponse:
    """What the token is for: a file of a folder, all of them as a tar, or a timeline."""
    token, name = call.request.match_info["token"], call.takes.file
    try:
        found = await call.services.tinker.downloads.find(token)
    except NoSuchDownload as error:
        raise no_such("download", name or "of this token") from error
    if found.folder is None:
        spans = await call.services.tinker.models.spans(found.owner, found.session_id or "")
        body = await asyncio.to_thread(timeline, spans)
        return web.Response(body=body, content_type="application/json")
    folder = await readable(NamedFolder("", found.folder))
    if not name:
        headers = {"Content-Disposition": 'attachment; filename="checkpoint.tar"'}
        with refusing():
            return await sent(call.request, tar_of(folder), tar_bytes(folder), headers)
    file = _file(folder, name)
    with refusing():
        return await sent_file(call.request, folder, file)


def _file(folder: FolderView, name: str) -> FileView:
    for file in folder.files:
        if file.name == name:
            return file
    raise no_such("download", name)


async def _granted(call: Call[Nothing]) -> tuple[Grant, FolderView]:
    trained, asked = await named_of_any(call)
    kept = await require_kept(call, trained, asked)
    folder = await readable(NamedFolder(kept.name, kept.url))
    files = SavedWeightsFolder(trained.id, asked, kept.url)
    return await call.services.tinker.downloads.grant(call.owner, kept=files), folder


def _url(call: Call[Nothing], grant: Grant, file: str = "") -> str:
    query = f"?{urlencode({'file': file})}" if file else ""
    origin = call.services.tinker.options.public_url or call.request.url.origin()
    return f"{origin}{PREFIX}downloads/{grant.token}{query}"


def _expires(grant: Grant) -> datetime:
    return datetime.fromtimestamp(grant.expires_s, UTC)


ROUTES = (
    tinker_route(
        "GET",
        f"{CHECKPOINT}/archive",
        archive_url,
        takes=Nothing,
        answers=ArchiveUrl,
        summary="Get a URL of all files of a checkpoint as a tar",
        scope=KeyScope.READ,
        errors=(404, 409),
    ),
    tinker_route(
        "GET",
        f"{CHECKPOINT}/external_weights_urls",
        external_weights_urls,
        takes=Nothing,
        answers=DownloadUrls,
        summary="Get a URL of each file of a checkpoint",
        scope=KeyScope.READ,
        errors=(404, 409),
    ),
    tinker_route(
        "GET",
        "sessions/{session}/trace_export",
        export_trace,
        takes=Nothing,
        answers=TraceExport,
        summary="Get a URL of the timeline of a session",
        errors=(404,),
    ),
    tinker_route(
        "GET",
        "downloads/{token}",
        download,
        takes=DownloadAsked,
        answers=FileView,
        summary="Download what a URL was given for",
        scope="public",
        errors=(404, 409),
        media_type="application/octet-stream",
        ends_with_client=True,
    ),
)
