"""What the commands for data sets, adapters and base models have in common: versions of a name are listed, downloaded,
deleted and shared.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter
from pydantic import BaseModel

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import Gateway
from warren.client import Client
from warren.display.output import Output, make_output, print_json
from warren.display.words import shared_with
from warren_schemas.files import FolderView
from warren_schemas.http import AdapterView, BaseModelView, DatasetView, VersionsDeleted

View = AdapterView | BaseModelView | DatasetView
ViewT = TypeVar("ViewT", AdapterView, BaseModelView, DatasetView)

Named = Annotated[str, Parameter(name="NAME", help="NAME, OWNER/NAME or either with @DIGEST.")]
NewFolder = Annotated[Path, Parameter(help="Target folder; must not exist yet.")]


async def list_versions(
    gateway: Gateway,
    find: Callable[[Client], Awaitable[Sequence[ViewT]]],
    answer: Callable[[Sequence[ViewT]], BaseModel],
    print_table: Callable[[Sequence[ViewT], Output], None],
    *,
    none_yet: str,
    as_json: bool,
) -> int:
    """`answer` makes what is printed as JSON."""
    async with connected(gateway) as client:
        found = await find(client)
    if as_json:
        print_json(answer(found))
    elif not found:
        make_output().line(none_yet)
    else:
        print_table(found, make_output())
    return codes.OK


async def download_version(
    gateway: Gateway, download: Callable[[Client], Awaitable[FolderView]], to: Path
) -> int:
    async with connected(gateway) as client:
        folder = await download(client)
    make_output().line(f"{to}: {', '.join(file.name for file in folder.files)}, from {folder.url}")
    return codes.OK


async def delete_versions(
    gateway: Gateway, delete: Callable[[Client], Awaitable[tuple[str, ...]]], *, as_json: bool
) -> int:
    async with connected(gateway) as client:
        gone = await delete(client)
    if as_json:
        print_json(VersionsDeleted(deleted=gone))
    else:
        for each in gone:
            make_output().line(f"{each} is deleted")
    return codes.OK


async def share_name(
    gateway: Gateway, change: Callable[[Client], Awaitable[View]], *, as_json: bool
) -> int:
    """`change` shares it, or ends that."""
    async with connected(gateway) as client:
        view = await change(client)
    if as_json:
        print_json(view)
    else:
        whom = shared_with(view.shared_with) or "nobody"
        make_output().line(f"{view.owner}/{view.name} is shared with {whom} now")
    return codes.OK
