"""`client.base_models`."""

import asyncio
from functools import partial
from os import PathLike
from pathlib import Path
from urllib.parse import urlencode

from pydantic import ValidationError

from warren.base_models.reading import LocalFile, read_base_model
from warren.connection.parts import send_parts
from warren.connection.transport import Transport
from warren.connection.uploaded import UploadedDownload
from warren.connection.uploading import upload_file
from warren.errors import ConfigurationError
from warren.pending import pending
from warren.records import RECONNECT_S
from warren_schemas.files import FolderView
from warren_schemas.http import (
    BaseModelList,
    BaseModelView,
    ChooseBaseModel,
    CreateBaseModel,
    ShareBaseModel,
    VersionsDeleted,
)
from warren_schemas.text.explain import explain

_UPLOAD = "/v1/base-models/upload"
_NAMES = (
    "A base model is named NAME, OWNER/NAME, or either with @ and at least 6 digits of its digest."
)


class BaseModels:
    """Base models that you have uploaded, or that are shared with you."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @pending
    async def upload(
        self, folder: str | PathLike[str], name: str, *, reconnect_s: float = RECONNECT_S
    ) -> BaseModelView:
        """Upload a base model as transformers saves it: safetensors, `config.json` and the tokenizer's files.

        All are checked here first. Configs call it `@NAME`. The same files again give the same version; an interrupted
        upload is resumed. Raises `ConfigurationError`.
        """
        files = await asyncio.to_thread(read_base_model, Path(folder))
        wanted = _wanted(files, name)
        for path, file in files:
            send = partial(send_parts, self._transport, _UPLOAD, file.sha256, path)
            await upload_file(self._transport, _UPLOAD, file.sha256, send, reconnect_s=reconnect_s)
        return await self._transport.post_long("/v1/base-models", BaseModelView, wanted)

    @pending
    async def all(self) -> tuple[BaseModelView, ...]:
        """Every version that you may use, newest first."""
        return (await self._transport.get("/v1/base-models", BaseModelList)).base_models

    @pending
    async def get(self, reference: str) -> BaseModelView:
        """`NAME`, `OWNER/NAME` or either with `@DIGEST`; without a digest the newest version. Raises `NotFound`."""
        query = urlencode({"base_model": _chosen(reference).base_model})
        return await self._transport.get(f"/v1/base-models/show?{query}", BaseModelView)

    @pending
    async def download(
        self, reference: str, to: str | PathLike[str], *, reconnect_s: float = RECONNECT_S
    ) -> FolderView:
        """Fetch its files into a new folder, as transformers loads them.

        Every file is checked; one that was cut off is taken up where it was. Raises `NotFound`, `ConfigurationError`,
        `GatewayError`, `OSError`.
        """
        view = await self.get(reference)
        download = UploadedDownload(
            self._transport, view, path="/v1/base-models", key="base_model", reconnect_s=reconnect_s
        )
        return await download.into(Path(to))

    @pending
    async def share(self, reference: str, user: str | None = None) -> BaseModelView:
        """Let a user, or everybody (None), use it with all its versions, and download it; nobody else changes it.

        Raises `NotFound`, `ConfigurationError`."""
        return await self._share("share", reference, user)

    @pending
    async def unshare(self, reference: str, user: str | None = None) -> BaseModelView:
        """Stop sharing it with a user, or with everybody (None); runs that have begun go on."""
        return await self._share("unshare", reference, user)

    @pending
    async def delete(self, reference: str) -> tuple[str, ...]:
        """Delete a version, or all of a name; their references. A run that uses one and is not over, or a name that
        serves it, prevents that: `GatewayError` (409). Raises `NotFound`."""
        body = _chosen(reference)
        gone = await self._transport.post("/v1/base-models/delete", VersionsDeleted, body)
        return gone.deleted

    async def _share(self, verb: str, reference: str, user: str | None) -> BaseModelView:
        chosen = _chosen(reference)
        try:
            body = ShareBaseModel(base_model=chosen.base_model, user=user)
        except ValidationError as error:
            raise ConfigurationError(f"There can be no user {user!r}") from error
        return await self._transport.post(f"/v1/base-models/{verb}", BaseModelView, body)


def _wanted(files: tuple[LocalFile, ...], name: str) -> CreateBaseModel:
    try:
        return CreateBaseModel(name=name, files=tuple(one.file for one in files))
    except ValidationError as error:
        details = explain(error, CreateBaseModel)
        raise ConfigurationError("This base model can't be uploaded", details=details) from error


def _chosen(reference: str) -> ChooseBaseModel:
    """With or without the `@` that configs put before it."""
    try:
        return ChooseBaseModel(base_model=reference.removeprefix("@"))
    except ValidationError as error:
        raise ConfigurationError(f"{reference!r} names no base model", hint=_NAMES) from error
