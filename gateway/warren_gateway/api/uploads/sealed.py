"""Sending a file of what a user brought: an adapter, or a base model."""

from aiohttp import web

from warren_gateway.api.problems import Refusal
from warren_gateway.api.sending import sent_file
from warren_gateway.datasets.problems import FilesUnavailable
from warren_gateway.folders import UnreadableFolder
from warren_schemas.files import FolderView
from warren_schemas.http import Problem


async def sent_of(
    request: web.Request, folder: FolderView, name: str, offset: int, what: str
) -> web.StreamResponse:
    """The file of this name, from this byte on; `what` the folder is of, for messages.

    Raises `Refusal`, `FilesUnavailable`, and then nothing is sent.
    """
    found = next((file for file in folder.files if file.name == name), None)
    if found is None:
        names = ", ".join(file.name for file in folder.files)
        raise Refusal(
            404, Problem(code="no_such_file", message=f"There is no such file; it has: {names}.")
        )
    try:
        return await sent_file(request, folder, found, offset)
    except UnreadableFolder as error:
        raise FilesUnavailable(str(error), what) from error
