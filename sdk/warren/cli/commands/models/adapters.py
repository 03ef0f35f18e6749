"""Upload LoRA adapters of yours, to sample from, serve, evaluate and train on, and share them.

An adapter is named NAME, OWNER/NAME for one of another user, or either with @ and the beginning of its digest.

For example:
    warren adapters upload my-lora --name poet
    warren serve poet --adapter poet
    warren adapters rm poet
"""

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import (
    HERE,
    AsJson,
    Everybody,
    Gateway,
    GatewayOptions,
    WithWhom,
    require_whom,
)
from warren.cli.uploaded import (
    Named,
    NewFolder,
    delete_versions,
    download_version,
    list_versions,
    share_name,
)
from warren.display.output import make_output, print_json
from warren.display.tables import print_adapters
from warren.display.words import count
from warren_schemas.http import AdapterList, AdapterView

__all__ = ["download", "ls", "rm", "share", "show", "unshare", "upload"]


def upload(
    folder: Annotated[
        Path,
        Parameter(
            name="FOLDER", help="As PEFT saves it: adapter_config.json, adapter_model.safetensors."
        ),
    ],
    /,
    *,
    name: Annotated[str, Parameter(help="What it will be called.")],
    model: Annotated[
        str | None, Parameter(help="Its base model; by default what adapter_config.json says.")
    ] = None,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Upload a LoRA adapter; it is checked first. The same command again resumes an interrupted upload.

    For example:
        warren adapters upload my-lora --name poet
        warren adapters upload my-lora --name poet --model Qwen/Qwen3-0.6B
    """
    return asyncio.run(_upload(folder, name, model, gateway, as_json=json))


def ls(*, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List all versions of your adapters and of those that are shared with you, newest first.

    For example:
        warren adapters ls
    """
    listing = list_versions(
        gateway,
        lambda client: client.adapters.all(),
        lambda found: AdapterList(adapters=tuple(found)),
        print_adapters,
        none_yet="No adapters yet; `warren adapters upload FOLDER --name NAME` makes one.",
        as_json=json,
    )
    return asyncio.run(listing)


def show(name: Named, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Show an adapter: its base model, rank, scale and modules.

    For example:
        warren adapters show poet
    """
    return asyncio.run(_show(name, gateway, as_json=json))


def download(
    name: Named,
    /,
    *,
    to: NewFolder,
    gateway: GatewayOptions = HERE,
) -> int:
    """Download an adapter as PEFT loads it, and verify it. The same command again resumes an interrupted download.

    For example:
        warren adapters download poet --to poet-copy
    """
    fetching = download_version(gateway, lambda client: client.adapters.download(name, to), to)
    return asyncio.run(fetching)


def rm(name: Named, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Delete an adapter with all its versions, or one with @DIGEST.

    A version that is served, or that an unfinished run starts from, is kept.

    For example:
        warren adapters rm poet@4f2a91
    """
    deletion = delete_versions(gateway, lambda client: client.adapters.delete(name), as_json=json)
    return asyncio.run(deletion)


def share(
    name: Named,
    user: WithWhom = None,
    /,
    *,
    everybody: Everybody = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Let a user, or everybody, use an adapter with all its versions: nobody else changes it.

    For example:
        warren adapters share poet bob
    """
    require_whom(user, everybody=everybody)
    change = share_name(gateway, lambda client: client.adapters.share(name, user), as_json=json)
    return asyncio.run(change)


def unshare(
    name: Named,
    user: WithWhom = None,
    /,
    *,
    everybody: Everybody = False,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Stop sharing an adapter with a user, or with everybody.

    For example:
        warren adapters unshare poet bob
    """
    require_whom(user, everybody=everybody)
    change = share_name(gateway, lambda client: client.adapters.unshare(name, user), as_json=json)
    return asyncio.run(change)


async def _upload(
    folder: Path, name: str, model: str | None, gateway: Gateway, *, as_json: bool
) -> int:
    async with connected(gateway) as client:
        view = await client.adapters.upload(folder, name, base_model=model)
    _print(view, as_json=as_json)
    return codes.OK


async def _show(name: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.adapters.get(name)
    _print(view, as_json=as_json)
    return codes.OK


def _print(view: AdapterView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    make_output().line(
        f"{view.reference}: rank {view.rank}, alpha {view.alpha:g}, on {', '.join(view.targets)} of {view.base_model},"
        f" {count(view.size_bytes)} bytes"
    )
