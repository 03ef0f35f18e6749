"""Upload base models of yours, to train, evaluate and sample from, and share them.

A base model is named NAME, OWNER/NAME for one of another user, or either with @ and the beginning of its digest; configs
have an @ before it.

For example:
    warren base-models upload my-model --name mine
    warren train config.yaml --set model.base=@mine
    warren base-models rm mine
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
from warren.display.tables import print_base_models
from warren.display.words import count
from warren_schemas.http import BaseModelList, BaseModelView

__all__ = ["download", "ls", "rm", "share", "show", "unshare", "upload"]


def upload(
    folder: Annotated[
        Path,
        Parameter(
            name="FOLDER",
            help="As transformers saves it: safetensors, config.json, the tokenizer's files.",
        ),
    ],
    /,
    *,
    name: Annotated[str, Parameter(help="What it will be called; configs have an @ before it.")],
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Upload a base model; it is checked first. The same command again resumes an interrupted upload.

    For example:
        warren base-models upload my-model --name mine
    """
    return asyncio.run(_upload(folder, name, gateway, as_json=json))


def ls(*, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List all versions of your base models and of those that are shared with you, newest first.

    For example:
        warren base-models ls
    """
    listing = list_versions(
        gateway,
        lambda client: client.base_models.all(),
        lambda found: BaseModelList(base_models=tuple(found)),
        print_base_models,
        none_yet="No base models yet; `warren base-models upload FOLDER --name NAME` makes one.",
        as_json=json,
    )
    return asyncio.run(listing)


def show(name: Named, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Show a base model: its architecture, its size, and what GPU workers call it.

    For example:
        warren base-models show mine
    """
    return asyncio.run(_show(name, gateway, as_json=json))


def download(
    name: Named,
    /,
    *,
    to: NewFolder,
    gateway: GatewayOptions = HERE,
) -> int:
    """Download a base model as transformers loads it, and verify it. The same command again resumes an interrupted download.

    For example:
        warren base-models download mine --to mine-copy
    """
    fetching = download_version(gateway, lambda client: client.base_models.download(name, to), to)
    return asyncio.run(fetching)


def rm(name: Named, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Delete a base model with all its versions, or one with @DIGEST.

    A version that is served, or that an unfinished run uses, is kept.

    For example:
        warren base-models rm mine@4f2a91
    """
    deletion = delete_versions(
        gateway, lambda client: client.base_models.delete(name), as_json=json
    )
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
    """Let a user, or everybody, use a base model with all its versions: nobody else changes it.

    For example:
        warren base-models share mine bob
    """
    require_whom(user, everybody=everybody)
    change = share_name(gateway, lambda client: client.base_models.share(name, user), as_json=json)
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
    """Stop sharing a base model with a user, or with everybody.

    For example:
        warren base-models unshare mine bob
    """
    require_whom(user, everybody=everybody)
    change = share_name(
        gateway, lambda client: client.base_models.unshare(name, user), as_json=json
    )
    return asyncio.run(change)


async def _upload(folder: Path, name: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.base_models.upload(folder, name)
    _print(view, as_json=as_json)
    return codes.OK


async def _show(name: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.base_models.get(name)
    _print(view, as_json=as_json)
    return codes.OK


def _print(view: BaseModelView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    make_output().line(
        f"{view.reference}: {view.architecture} with {count(view.n_parameters)} parameters, {count(view.size_bytes)} bytes;"
        f" GPU workers call it {view.base_model}"
    )
