"""LoRA adapters that users bring, over HTTP.

Invariant: another owner's adapter is not there, unless it is shared with the caller.
"""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.api.uploads.parts import FilePart, FindUpload, read_part
from warren_gateway.api.uploads.sealed import sent_of
from warren_schemas.config import NonNegativeInt
from warren_schemas.files import FileView, FolderView
from warren_schemas.http import (
    AdapterList,
    AdapterView,
    ChooseAdapter,
    CreateAdapter,
    ShareAdapter,
    UploadProgress,
    VersionsDeleted,
)
from warren_schemas.users.access import KeyScope


class ReadAdapterFile(ChooseAdapter):
    name: str = ""
    """As the list of files has it; there is none without a name."""
    offset: NonNegativeInt = 0
    """Begin at this byte, to go on where an answer was cut off."""


async def list_adapters(call: Call[Nothing]) -> web.StreamResponse:
    return reply(AdapterList(adapters=await call.services.adapters.listed(call.viewer)))


async def show_adapter(call: Call[ChooseAdapter]) -> web.StreamResponse:
    return reply(await call.services.adapters.show(call.viewer, call.takes.adapter))


async def adapter_files(call: Call[ChooseAdapter]) -> web.StreamResponse:
    return reply(await call.services.adapters.folder(call.viewer, call.takes.adapter))


async def adapter_file(call: Call[ReadAdapterFile]) -> web.StreamResponse:
    takes = call.takes
    folder = await call.services.adapters.folder(call.viewer, takes.adapter)
    return await sent_of(call.request, folder, takes.name, takes.offset, "adapters")


async def weights_progress(call: Call[FindUpload]) -> web.StreamResponse:
    return reply(await call.services.adapters.uploads.progress(call.owner, call.takes.sha256))


async def upload_weights(call: Call[FilePart]) -> web.StreamResponse:
    takes = call.takes
    data = await read_part(call.request)
    progress = await call.services.adapters.uploads.take(
        call.owner, takes.sha256, offset=takes.offset, data=data
    )
    return reply(progress)


async def create_adapter(call: Call[CreateAdapter]) -> web.StreamResponse:
    view, is_new = await call.services.adapters.create(call.viewer, call.takes)
    return reply(view, status=201 if is_new else 200)


async def delete_adapter(call: Call[ChooseAdapter]) -> web.StreamResponse:
    gone = await call.services.adapters.delete(call.viewer, call.takes.adapter)
    return reply(VersionsDeleted(deleted=gone))


async def share_adapter(call: Call[ShareAdapter]) -> web.StreamResponse:
    return reply(await call.services.adapters.share(call.viewer, call.takes))


async def unshare_adapter(call: Call[ShareAdapter]) -> web.StreamResponse:
    return reply(await call.services.adapters.unshare(call.viewer, call.takes))


ROUTES = (
    Route(
        "GET",
        "/v1/adapters",
        list_adapters,
        takes=Nothing,
        answers=AdapterList,
        summary="List all versions of your adapters and of those that are shared with you, newest first",
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "POST",
        "/v1/adapters",
        create_adapter,
        takes=CreateAdapter,
        answers=AdapterView,
        summary="Make an adapter of uploaded weights; the same again answers 200 with the existing version",
        scope=KeyScope.SUBMIT,
        status=201,
        repeated_status=200,
        errors=(400, 413, 422, 507),
    ),
    Route(
        "GET",
        "/v1/adapters/show",
        show_adapter,
        takes=ChooseAdapter,
        answers=AdapterView,
        summary="Show an adapter: its newest version, or the one with a digest that begins so",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/v1/adapters/files",
        adapter_files,
        takes=ChooseAdapter,
        answers=FolderView,
        summary="List the files of an adapter, with their SHA-256",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/v1/adapters/file",
        adapter_file,
        takes=ReadAdapterFile,
        answers=FileView,
        summary="Download a file of an adapter, from any byte offset",
        scope=KeyScope.READ,
        errors=(404, 422),
        media_type="application/octet-stream",
        ends_with_client=True,
    ),
    Route(
        "GET",
        "/v1/adapters/upload",
        weights_progress,
        takes=FindUpload,
        answers=UploadProgress,
        summary="Tell how much of a file of weights has been uploaded",
        scope=KeyScope.SUBMIT,
        errors=(422,),
    ),
    Route(
        "POST",
        "/v1/adapters/upload",
        upload_weights,
        takes=FilePart,
        answers=UploadProgress,
        summary="Upload the next part of a file of weights, at most 4 MiB; the same part again changes nothing",
        scope=KeyScope.SUBMIT,
        errors=(400, 409, 413, 422, 507),
        takes_file=True,
    ),
    Route(
        "POST",
        "/v1/adapters/delete",
        delete_adapter,
        takes=ChooseAdapter,
        answers=VersionsDeleted,
        summary="Delete a version of an adapter, or all where no digest is given",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/adapters/share",
        share_adapter,
        takes=ShareAdapter,
        answers=AdapterView,
        summary="Let a user, or everybody, use an adapter with all its versions",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "POST",
        "/v1/adapters/unshare",
        unshare_adapter,
        takes=ShareAdapter,
        answers=AdapterView,
        summary="Stop sharing an adapter with a user, or with everybody",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
)
