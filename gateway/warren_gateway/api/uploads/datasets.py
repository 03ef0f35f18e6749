"""Data sets over HTTP.

Invariant: another owner's data set is not there, unless it is shared with the caller.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Annotated

from aiohttp import web
from pydantic import Field

from warren_gateway.api.route import Call, Nothing, Route, reply
from warren_gateway.api.uploads.parts import FilePart, FindUpload, read_part
from warren_gateway.datasets import folder
from warren_gateway.datasets.assembling import check_part
from warren_gateway.datasets.folder import Folder
from warren_schemas.base import Frozen
from warren_schemas.config import NonNegativeInt, PositiveInt
from warren_schemas.config.numbers import DatasetReference, SplitName
from warren_schemas.files import FileView
from warren_schemas.http import (
    ChooseDataset,
    CreateDataset,
    DatasetKind,
    DatasetList,
    DatasetRows,
    DatasetView,
    ShareDataset,
    UploadProgress,
    VersionsDeleted,
)
from warren_schemas.users.access import KeyScope

log = logging.getLogger(__name__)

_CHUNK_BYTES = 1024 * 1024


class ListRows(Frozen):
    dataset: DatasetReference
    split: SplitName | None = None
    """Left out, the first one."""
    offset: NonNegativeInt = 0
    """Number of the first row, counted from 0."""
    limit: Annotated[int, Field(ge=1, le=100)] = 10
    """Most rows to answer."""


class ReadSplit(Frozen):
    dataset: DatasetReference
    split: SplitName | None = None
    """Left out, the first one."""
    offset: NonNegativeInt = 0
    """Begin at this byte, to go on where an answer was cut off."""


class RowsPart(FilePart):
    kind: DatasetKind
    first_line: PositiveInt = 1
    """Number of its first line in the file, for messages."""


async def list_datasets(call: Call[Nothing]) -> web.StreamResponse:
    return reply(DatasetList(datasets=await call.services.datasets.listed(call.viewer)))


async def show_dataset(call: Call[ChooseDataset]) -> web.StreamResponse:
    return reply(await call.services.datasets.show(call.viewer, call.takes.dataset))


async def dataset_rows(call: Call[ListRows]) -> web.StreamResponse:
    takes = call.takes
    found = await call.services.datasets.rows(
        call.viewer, takes.dataset, takes.split, takes.offset, takes.limit
    )
    return reply(found)


async def dataset_file(call: Call[ReadSplit]) -> web.StreamResponse:
    takes, datasets = call.takes, call.services.datasets
    dataset, _, split = await datasets.split(call.viewer, takes.dataset, takes.split)
    headers = {"Content-Type": "application/octet-stream", "ETag": f'"{split.sha256}"'}
    response = web.StreamResponse(headers=headers)
    begin = min(takes.offset, split.size_bytes)  # no file system seeks as far as a client may ask
    response.content_length = split.size_bytes - begin
    name = folder.split_file(dataset, split.name)
    async with aclosing(_chunks(datasets.files, name, begin)) as chunks:
        first = await anext(chunks, b"")
        await response.prepare(call.request)
        await response.write(first)
        async for chunk in chunks:
            await response.write(chunk)
    await response.write_eof()
    return response


async def _chunks(files: Folder, name: str, offset: int) -> AsyncGenerator[bytes]:
    file = await asyncio.to_thread(files.open, name, offset)
    try:
        while chunk := await asyncio.to_thread(file.read, _CHUNK_BYTES):
            yield chunk
    finally:
        await asyncio.to_thread(file.close)


async def upload_progress(call: Call[FindUpload]) -> web.StreamResponse:
    return reply(await call.services.datasets.uploads.progress(call.owner, call.takes.sha256))


async def upload_part(call: Call[RowsPart]) -> web.StreamResponse:
    takes = call.takes
    data = await read_part(call.request)
    progress = await call.services.datasets.uploads.take(
        call.owner,
        takes.sha256,
        offset=takes.offset,
        data=data,
        check=partial(check_part, kind=takes.kind, first_line=takes.first_line),
    )
    return reply(progress)


async def create_dataset(call: Call[CreateDataset]) -> web.StreamResponse:
    view, is_new = await call.services.datasets.create(call.viewer, call.takes)
    return reply(view, status=201 if is_new else 200)


async def delete_dataset(call: Call[ChooseDataset]) -> web.StreamResponse:
    gone = await call.services.datasets.delete(call.viewer, call.takes.dataset)
    return reply(VersionsDeleted(deleted=gone))


async def share_dataset(call: Call[ShareDataset]) -> web.StreamResponse:
    return reply(await call.services.datasets.share(call.viewer, call.takes))


async def unshare_dataset(call: Call[ShareDataset]) -> web.StreamResponse:
    return reply(await call.services.datasets.unshare(call.viewer, call.takes))


ROUTES = (
    Route(
        "GET",
        "/v1/datasets",
        list_datasets,
        takes=Nothing,
        answers=DatasetList,
        summary="List all versions of your data sets and of those that are shared with you, newest first",
        scope=KeyScope.READ,
        errors=(422,),
    ),
    Route(
        "POST",
        "/v1/datasets",
        create_dataset,
        takes=CreateDataset,
        answers=DatasetView,
        summary="Make a data set of uploaded files; the same files again answer 200 with the existing version",
        scope=KeyScope.SUBMIT,
        status=201,
        repeated_status=200,
        errors=(400, 413, 422, 507),
    ),
    Route(
        "GET",
        "/v1/datasets/show",
        show_dataset,
        takes=ChooseDataset,
        answers=DatasetView,
        summary="Show a data set: its newest version, or the one with a digest that begins so",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/v1/datasets/rows",
        dataset_rows,
        takes=ListRows,
        answers=DatasetRows,
        summary="Read some rows of a data set",
        scope=KeyScope.READ,
        errors=(404, 422),
    ),
    Route(
        "GET",
        "/v1/datasets/file",
        dataset_file,
        takes=ReadSplit,
        answers=FileView,
        summary="Download a split of a data set as JSON lines, from any byte offset",
        scope=KeyScope.READ,
        errors=(404, 422),
        media_type="application/octet-stream",
        ends_with_client=True,
    ),
    Route(
        "GET",
        "/v1/datasets/upload",
        upload_progress,
        takes=FindUpload,
        answers=UploadProgress,
        summary="Tell how much of a file has been uploaded",
        scope=KeyScope.SUBMIT,
        errors=(422,),
    ),
    Route(
        "POST",
        "/v1/datasets/upload",
        upload_part,
        takes=RowsPart,
        answers=UploadProgress,
        summary="Upload the next part of a file: whole lines, at most 4 MiB; the same part again changes nothing",
        scope=KeyScope.SUBMIT,
        errors=(400, 409, 413, 422, 507),
        takes_file=True,
    ),
    Route(
        "POST",
        "/v1/datasets/delete",
        delete_dataset,
        takes=ChooseDataset,
        answers=VersionsDeleted,
        summary="Delete a version of a data set, or all where no digest is given",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 409, 413, 422),
    ),
    Route(
        "POST",
        "/v1/datasets/share",
        share_dataset,
        takes=ShareDataset,
        answers=DatasetView,
        summary="Let a user, or everybody, read a data set with all its versions",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
    Route(
        "POST",
        "/v1/datasets/unshare",
        unshare_dataset,
        takes=ShareDataset,
        answers=DatasetView,
        summary="Stop sharing a data set with a user, or with everybody",
        scope=KeyScope.SUBMIT,
        errors=(400, 404, 413, 422),
    ),
)
