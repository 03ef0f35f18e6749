"""Upload data sets, look at them, share and delete them; convert files for environments.

A data set is named NAME, OWNER/NAME for one of another user, or either with @ and the beginning of its digest.

For example:
    warren data upload chats.jsonl --name chats
    warren data show chats
    warren data prepare gsm8k-train.parquet --out data/gsm8k --holdout 0.05
"""

import asyncio
from pathlib import Path
from typing import Annotated

import orjson
from cyclopts import Parameter

from warren.cli import codes
from warren.cli.commands.runs.runs import RunName
from warren.cli.connecting import RETRY_S, connected
from warren.cli.options import (
    HERE,
    AsJson,
    Everybody,
    Gateway,
    GatewayOptions,
    WithWhom,
    require_whom,
)
from warren.cli.uploaded import Named, NewFolder, delete_versions, list_versions, share_name
from warren.client import Client
from warren.configs import read_filter
from warren.datasets.collecting import CollectedKind
from warren.datasets.handle import Dataset
from warren.display.output import make_output, print_json
from warren.display.tables import print_datasets
from warren.display.words import count, counted
from warren_schemas.config import RecordingFilter
from warren_schemas.http import DatasetKind, DatasetList, DatasetView

__all__ = ["collect", "download", "ls", "rm", "share", "show", "unshare", "upload"]

_SHOWN_CHARS = 400


def upload(
    source: Annotated[
        Path,
        Parameter(
            name="FILE", help="A .jsonl or .parquet file, or a folder with one for each split."
        ),
    ],
    /,
    *,
    name: Annotated[str, Parameter(help="What configs will call it.")],
    kind: Annotated[
        DatasetKind | None, Parameter(help="What the rows are; by default the first one tells.")
    ] = None,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Upload rows for fine-tuning, inference and environments; every line is checked first.

    Rows hold `messages`, or `prompt` and `completion`, or anything that an environment takes. A file is the split
    `train`; of a folder each file is a split. The same command again resumes an interrupted upload.

    For example:
        warren data upload chats.jsonl --name chats
        warren data upload gsm8k/ --name gsm8k
    """
    return asyncio.run(_upload(source, name, kind, gateway, as_json=json))


def collect(
    run: RunName,
    /,
    *,
    name: Annotated[str, Parameter(help="What configs will call it.")],
    where: Annotated[
        tuple[str, ...],
        Parameter(help="KEY=VALUE that episodes must meet, min_reward=1; repeatable."),
    ] = (),
    best_of: Annotated[int | None, Parameter(help="Episodes of each task; the best ones.")] = None,
    kind: Annotated[
        CollectedKind,
        Parameter(
            help="trajectories: with the tokens that were sampled; messages: words, for any model."
        ),
    ] = DatasetKind.TRAJECTORIES,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Make a data set of a run's best episodes, to fine-tune on (rejection sampling, distillation).

    For example:
        warren data collect last --name solved --where min_reward=1 --best-of 2
        warren sft solved --model warren/tiny
    """
    return asyncio.run(
        _collect(run, name, read_filter(where), best_of, kind, gateway, as_json=json)
    )


def ls(*, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """List all versions of your data sets and of those that are shared with you, newest first.

    For example:
        warren data ls
    """
    listing = list_versions(
        gateway,
        _views,
        lambda found: DatasetList(datasets=tuple(found)),
        print_datasets,
        none_yet="No data sets yet; `warren data upload FILE --name NAME` makes one.",
        as_json=json,
    )
    return asyncio.run(listing)


def show(
    name: Named,
    /,
    *,
    split: Annotated[str | None, Parameter(help="Split whose rows to show.")] = None,
    rows: Annotated[int, Parameter(help="How many rows to show.")] = 3,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Show a data set: its splits, columns and first rows.

    For example:
        warren data show chats --rows 5
    """
    return asyncio.run(_show(name, split, rows, gateway, as_json=json))


def download(
    name: Named,
    /,
    *,
    to: NewFolder,
    gateway: GatewayOptions = HERE,
) -> int:
    """Download a data set as JSON lines, a file for each split, and verify it.

    For example:
        warren data download chats --to chats-copy
    """
    return asyncio.run(_download(name, to, gateway))


def rm(name: Named, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Delete a data set with all its versions, or one with @DIGEST.

    A version that an unfinished run reads is kept.

    For example:
        warren data rm chats@4f2a91
    """
    deletion = delete_versions(gateway, lambda client: client.datasets.delete(name), as_json=json)
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
    """Let a user, or everybody, read a data set with all its versions.

    For example:
        warren data share chats bob
    """
    require_whom(user, everybody=everybody)
    change = share_name(gateway, lambda client: _share(client, name, user), as_json=json)
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
    """Stop sharing a data set with a user, or with everybody.

    For example:
        warren data unshare chats bob
    """
    require_whom(user, everybody=everybody)
    change = share_name(gateway, lambda client: _unshare(client, name, user), as_json=json)
    return asyncio.run(change)


async def _upload(
    source: Path, name: str, kind: DatasetKind | None, gateway: Gateway, *, as_json: bool
) -> int:
    async with connected(gateway) as client:
        dataset = await client.datasets.upload(source, name, kind=kind)
    _print_made(dataset, as_json=as_json)
    return codes.OK


async def _collect(
    run: str,
    name: str,
    where: RecordingFilter,
    best_of: int | None,
    kind: CollectedKind,
    gateway: Gateway,
    *,
    as_json: bool,
) -> int:
    async with connected(gateway) as client:
        dataset = await client.datasets.collect(
            await client.run(run), name, where=where, best_of=best_of, kind=kind
        )
    _print_made(dataset, as_json=as_json)
    return codes.OK


def _print_made(dataset: Dataset, *, as_json: bool) -> None:
    view = dataset.view
    if as_json:
        print_json(view)
    else:
        make_output().line(
            f"{view.reference}: {counted(view.n_rows, 'row')} of {view.kind.value}, {count(view.size_bytes)} bytes"
        )


async def _show(
    name: str, split: str | None, n_rows: int, gateway: Gateway, *, as_json: bool
) -> int:
    async with connected(gateway) as client:
        dataset = await client.datasets.get(name)
        rows = await dataset.rows(split, limit=n_rows) if n_rows > 0 else ()
    if as_json:
        print_json(dataset.view)
        return codes.OK
    view, output = dataset.view, make_output()
    output.line(f"{view.reference}: {view.kind.value}")
    table = [
        (each.name, count(each.n_rows), count(each.size_bytes), each.sha256[:12], _columns(each.columns))
        for each in view.splits
    ]  # fmt: skip
    output.table(["split", "rows", "bytes", "sha256", "columns"], table, right=["rows", "bytes"])
    for row in rows:
        text = orjson.dumps(row).decode()
        output.line(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")
    return codes.OK


def _columns(columns: dict[str, str]) -> str:
    return ", ".join(f"{name} ({types})" for name, types in columns.items())


async def _download(name: str, to: Path, gateway: Gateway) -> int:
    async with connected(gateway) as client:
        dataset = await client.datasets.get(name)
        folder = await dataset.download(to, reconnect_s=RETRY_S)
    make_output().line(
        f"{to}: {counted(len(folder.files), 'file')}, {counted(dataset.view.n_rows, 'row')}"
    )
    return codes.OK


async def _views(client: Client) -> list[DatasetView]:
    return [each.view for each in await client.datasets.all()]


async def _share(client: Client, name: str, user: str | None) -> DatasetView:
    return await (await client.datasets.get(name)).share(user)


async def _unshare(client: Client, name: str, user: str | None) -> DatasetView:
    return await (await client.datasets.get(name)).unshare(user)
