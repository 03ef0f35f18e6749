"""The files of a run's checkpoints and policies over HTTP.

Invariant: another owner's run has none.
"""

from aiohttp import web

from warren_gateway.api.problems import Refusal
from warren_gateway.api.route import Call, Route, reply
from warren_gateway.api.sending import readable, refusing, sent_file
from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt
from warren_schemas.files import FileView, FolderView, absence, find_folder
from warren_schemas.http import Problem
from warren_schemas.users.access import KeyScope


class ListFiles(Frozen):
    version: str = ""
    """Name of a checkpoint, a step, or `v` and a policy version; left out, the newest policy."""


class ReadFile(Frozen):
    name: str = ""
    """As the list of files has it; there is none without a name."""
    version: str = ""
    """Name of a checkpoint, a step, or `v` and a policy version; left out, the newest policy."""
    offset: NonNegativeInt = 0
    """Begin at this byte, to go on where an answer was cut off."""


async def run_files(call: Call[ListFiles]) -> web.StreamResponse:
    return reply(await _folder(call, call.takes.version))


async def run_file(call: Call[ReadFile]) -> web.StreamResponse:
    takes = call.takes
    folder = await _folder(call, takes.version)
    found = next((file for file in folder.files if file.name == takes.name), None)
    if found is None:
        names = ", ".join(file.name for file in folder.files)
        raise _refusal(404, "no_such_file", f"{folder.url} has no such file; it has: {names}")
    with refusing():
        return await sent_file(call.request, folder, found, takes.offset)


async def _folder(call: Call[ListFiles] | Call[ReadFile], version: str) -> FolderView:
    found = await call.services.runs.checkpoints(call.viewer, call.run)
    named = find_folder(found, version)
    if named is None:
        what, hint = absence(found, version)
        raise _refusal(404, "no_such_version", f"{call.run} has {what}", hint)
    return await readable(named)


def _refusal(status: int, code: str, message: str, hint: str | None = None) -> Refusal:
    return Refusal(status, Problem(code=code, message=f"{message}.", hint=hint))


ROUTES = (
    Route(
        "GET",
        "/v1/runs/{run}/files",
        run_files,
        takes=ListFiles,
        answers=FolderView,
        summary="List the files of a checkpoint or a policy, with their SHA-256",
        scope=KeyScope.READ,
        errors=(404, 409, 422),
    ),
    Route(
        "GET",
        "/v1/runs/{run}/file",
        run_file,
        takes=ReadFile,
        answers=FileView,
        summary="Download a file of a checkpoint or a policy, from any byte offset",
        scope=KeyScope.READ,
        errors=(404, 409, 422),
        media_type="application/octet-stream",
        ends_with_client=True,
    ),
)
