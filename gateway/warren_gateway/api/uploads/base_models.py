"""Base models that users bring, over HTTP.

Invariant: another owner's base model is not there, unless it is shared with the caller.
"""

from aiohttp import web

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.api.uploads.parts import FilePart, FindUpload, read_part
from warren_gateway.api.uploads.sealed import sent_of
from warren_schemas.config import NonNegativeInt
from warren_schemas.files import FileView, FolderView
from warren_schemas.http import (
    BaseModelList,
    BaseModelView,
    ChooseBaseModel,
    CreateBaseModel,
    ShareBaseModel,
    UploadProgress,
    VersionsDeleted,
)
from warren_schemas.users.access import KeyScope


class ReadBaseModelFile(ChooseBaseModel):
    name: str = ""
    """As the list of files has it; there is none without a name."""
    offset: NonNegativeInt = 0
    """Begin at this byte, to go on where an answer was cut off."""


async def list_base_models(call: Call[Nothing]) -> web.StreamResponse:
    return reply(BaseModelList(base_models=await call.services.base_models.listed(call.viewer)))


async def show_base_model(call: Call[ChooseBaseModel]) -> web.StreamResponse:
    return reply(await call.services.base_models.show(call.viewer, call.takes.base_model))


async def base_model_files(call: Call[ChooseBaseModel]) -> web.StreamResponse:
    return reply(await call.services.base_models.folder(call.viewer, call.takes.base_model))


async def base_model_file(call: Call[ReadBaseModelFile]) -> web.StreamResponse:
    takes = call.takes
    folder = await call.services.base_models.folder(call.viewer, takes.base_model)
    return await sent_of(call.request, folder, takes.name, takes.offset, "base models")


async def model_progress(call: Call[FindUpload]) -> web.StreamResponse:
    return reply(await call.services.base_models.uploads.progress(call.owner, call.takes.sha256))


async def upload_model(call: Call[FilePart]) -> web.StreamResponse:
    takes, base_models = call.takes, call.services.base_models
    data = await read_part(call.request)
    base_models.require_taken(takes.offset + len(data))
    progress = await base_models.uploads.take(
        call.owner, takes.sha256, offset=takes.offset, data=data
    )
    return reply(progress)


async def create_base_model(call: Call[CreateBaseModel]) -> web.StreamResponse:
    view, is_new = await call.services.base_models.create(call.viewer, call.takes)
    return reply(view, status=201 if is_new else 200)


async def delete_base_model(call: Call[ChooseBaseModel]) -> web.StreamResponse:
    gone = await call.services.base_models.delete(call.viewer, call.takes.base_model)
    return reply(VersionsDeleted(deleted=gone))


async def share_base_model(call: Call[ShareBaseModel]) -> web.StreamResponse:
    return reply(await call.services.base_models.share(call.viewer, call.takes))


async def unshare_base_model(call: Call[ShareBaseModel]) -> web.StreamResponse:
    return reply(await call.services.base_models.unshare(call.viewer, call.takes))


ROUTES = (
    Route(
        "GET",
        "/v1/base-models",
        list_base_models,
        takes=Nothing,
        answers=BaseModelList,
        summary="List all versions of your base models and of those that are shared with you, newest first",
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "POST",
        "/v1/base-models",
        create_base_model,
        takes=CreateBaseModel,
        answers=BaseModelView,
        summary="Make a base model of uploaded files; the same again answers 200 with the existing version",
        scope=KeyScope.SUBMIT,
        status=201,
        repeated_status=200,
        errors=(400, 413, 422, 507),
    ),
    Route(
        "GET",
        "/v1/base-models/show",
        show_base_model,
        takes=ChooseBaseModel,
        answers=BaseModelView,
        summary="Show a base model: its newest version, or the one with a digest that begins so",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/v1/base-models/files",
        base_model_files,
        takes=ChooseBaseModel,
        answers=FolderView,
        summary="List the files of a base model, with their SHA-256",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/v1/base-models/file",
        base_model_file,
        takes=ReadBaseModelFile,
        answers=FileView,
        summary="Download a file of a base model, from any byte offset",
        scope=KeyScope.READ,
        errors=(404, 422),
        media_type="application/octet-stream",
        ends_with_client=True,
    ),
    Route(
        "GET",
        "/v1/base-models/upload",
        model_progress,
        takes=FindUpload,
        answers=UploadProgress,
        summary="Tell how much of a file of a base model has been uploaded",
        scope=KeyScope.SUBMIT,
        errors=(422,),
    ),
    Route(
        "POST",
        "/v1/base-models/upload",
        upload_model,
        takes=FilePart,
        answers=UploadProgress,
        summary="Upload the next part of a file of a base model, at most 4 MiB; the same part again changes nothing",
        scope=KeyScope.SUBMIT,
        errors=(400, 409, 413, 422, 507),
        takes_file=True,
    ),
    Route(
        "POST",
        "/v1/base-models/delete",
        delete_base_model,
        takes=ChooseBaseModel,
        answers=VersionsDeleted,
        summary="Delete a version of a base model, or all where no digest is given",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/base-models/share",
        share_base_model,
        takes=ShareBaseModel,
        answers=BaseModelView,
        summary="Let a user, or everybody, use a base model with all its versions",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "POST",
        "/v1/base-models/unshare",
        unshare_base_model,
        takes=ShareBaseModel,
        answers=BaseModelView,
        summary="Stop sharing a base model with a user, or with everybody",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
)
