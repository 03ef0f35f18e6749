"""`client.adapters`."""

import asyncio
from functools import partial
from os import PathLike
from pathlib import Path
from urllib.parse import urlencode

from pydantic import ValidationError

from warren.adapters.reading import AdapterFiles, read_adapter
from warren.connection.parts import send_parts
from warren.connection.transport import Transport
from warren.connection.uploaded import UploadedDownload
from warren.connection.uploading import upload_file
from warren.errors import ConfigurationError
from warren.pending import pending
from warren.records import RECONNECT_S
from warren_schemas.config import LoraUpdate, ModelConfig
from warren_schemas.files import FolderView
from warren_schemas.http import (
    AdapterList,
    AdapterView,
    ChooseAdapter,
    CreateAdapter,
    ShareAdapter,
    VersionsDeleted,
)
from warren_schemas.text.explain import explain

_UPLOAD = "/v1/adapters/upload"
_NAMES = (
    "An adapter is named NAME, OWNER/NAME, or either with @ and at least 6 digits of its digest."
)


class Adapters:
    """LoRA adapters that you have uploaded, or that are shared with you."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    @pending
    async def upload(
        self,
        folder: str | PathLike[str],
        name: str,
        *,
        base_model: str | None = None,
        reconnect_s: float = RECONNECT_S,
    ) -> AdapterView:
        """Upload a LoRA as PEFT saves it: `adapter_config.json` and `adapter_model.safetensors`.

        Both are checked here first. `base_model` is the name that GPU workers have for it, by default what the config
        says. The same files again give the same version; an interrupted upload is resumed. Raises `ConfigurationError`.
        """
        files = await asyncio.to_thread(read_adapter, Path(folder))
        wanted = _wanted(files, name, base_model)
        send_rest = partial(send_parts, self._transport, _UPLOAD, files.sha256, files.weights)
        await upload_file(
            self._transport, _UPLOAD, files.sha256, send_rest, reconnect_s=reconnect_s
        )
        return await self._transport.post_long("/v1/adapters", AdapterView, wanted)

    @pending
    async def all(self) -> tuple[AdapterView, ...]:
        """Every version that you may use, newest first."""
        return (await self._transport.get("/v1/adapters", AdapterList)).adapters

    @pending
    async def get(self, reference: str) -> AdapterView:
        """`NAME`, `OWNER/NAME` or either with `@DIGEST`; without a digest the newest version. Raises `NotFound`."""
        chosen = _chosen(reference)
        path = f"/v1/adapters/show?{urlencode({'adapter': chosen.adapter})}"
        return await self._transport.get(path, AdapterView)

    @pending
    async def download(
        self, reference: str, to: str | PathLike[str], *, reconnect_s: float = RECONNECT_S
    ) -> FolderView:
        """Fetch `adapter_config.json` and `adapter_model.safetensors` into a new folder, as PEFT loads them.

        Every file is checked; one that was cut off is taken up where it was. Raises `NotFound`, `ConfigurationError`,
        `GatewayError`, `OSError`.
        """
        view = await self.get(reference)
        download = UploadedDownload(
            self._transport, view, path="/v1/adapters", key="adapter", reconnect_s=reconnect_s
        )
        return await download.into(Path(to))

    @pending
    async def share(self, reference: str, user: str | None = None) -> AdapterView:
        """Let a user, or everybody (None), use it with all its versions: sample, evaluate, train from it, download it.

        Nobody else changes it. Raises `NotFound`, `ConfigurationError`."""
        return await self._share("share", reference, user)

    @pending
    async def unshare(self, reference: str, user: str | None = None) -> AdapterView:
        """Stop sharing it with a user, or with everybody (None); what their runs have begun with stays theirs."""
        return await self._share("unshare", reference, user)

    @pending
    async def delete(self, reference: str) -> tuple[str, ...]:
        """Delete a version, or all of a name; their references. One that is served, or that a run starts from which is
        not over, prevents that: `GatewayError` (409). Raises `NotFound`."""
        body = _chosen(reference)
        return (await self._transport.post("/v1/adapters/delete", VersionsDeleted, body)).deleted

    async def _share(self, verb: str, reference: str, user: str | None) -> AdapterView:
        chosen = _chosen(reference)
        try:
            body = ShareAdapter(adapter=chosen.adapter, user=user)
        except ValidationError as error:
            raise ConfigurationError(f"There can be no user {user!r}") from error
        return await self._transport.post(f"/v1/adapters/{verb}", AdapterView, body)


def starting_model(adapter: AdapterView) -> ModelConfig:
    """The model of a config that begins with this adapter; rank, scale and modules are the adapter's."""
    return ModelConfig(base=adapter.base_model, update=LoraUpdate(start_adapter=adapter.reference))


async def model_with(
    adapters: Adapters, adapter: str | None, *others: str | None
) -> ModelConfig | None:
    """That of the adapter of this name, None where none is named. Raises `ConfigurationError`, `NotFound`."""
    if adapter is None:
        return None
    if any(other is not None for other in others):
        raise ConfigurationError("Give one of a policy, a base model and an adapter")
    return starting_model(await adapters.get(adapter))


def _wanted(files: AdapterFiles, name: str, base_model: str | None) -> CreateAdapter:
    base = base_model or files.base_model
    if base is None:
        raise ConfigurationError(
            "adapter_config.json doesn't name its base model",
            hint="Give the name that `warren workers` shows: --model NAME, or base_model=.",
        )
    try:
        return CreateAdapter(
            name=name,
            base_model=base,
            config=files.config,
            sha256=files.sha256,
            size_bytes=files.size_bytes,
        )
    except ValidationError as error:
        raise ConfigurationError(
            "This adapter can't be uploaded",
            details=explain(error, CreateAdapter),
            hint="--model says which base model it is of, where adapter_config.json names a folder.",
        ) from error


def _chosen(reference: str) -> ChooseAdapter:
    try:
        return ChooseAdapter(adapter=reference)
    except ValidationError as error:
        raise ConfigurationError(f"{reference!r} names no adapter", hint=_NAMES) from error
