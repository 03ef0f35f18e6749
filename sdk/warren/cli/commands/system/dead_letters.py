"""List dead letters, republish them or drop them.

For example:
    warren dead-letters ls
    warren dead-letters republish LETTER
"""

import asyncio
import json as json_module
from typing import Annotated

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import Output, make_output, print_json
from warren.display.words import ago, count
from warren_schemas.http import DeadLetterDetails, DeadLetterList, DeadLetterView

__all__ = ["drop", "ls", "republish", "show"]

Letter = Annotated[str, Parameter(name="LETTER", help="Id, as shown by `warren dead-letters ls`.")]


def ls(
    *,
    limit: Annotated[int, Parameter(help="Maximum number of letters.")] = 100,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """List dead letters (messages that could not be processed), oldest first.

    For example:
        warren dead-letters ls
    """
    return asyncio.run(_ls(gateway, limit, as_json=json))


def show(letter: Letter, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Show a dead letter and its items.

    For example:
        warren dead-letters show msg_019aa3b7a1c04e5d90ab17ce21d3
    """
    return asyncio.run(_show(letter, gateway, as_json=json))


def republish(letter: Letter, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Republish a dead letter to its queue; if it fails again, it comes back with its count raised.

    For example:
        warren dead-letters republish msg_019aa3b7a1c04e5d90ab17ce21d3
    """
    return asyncio.run(_republish(letter, gateway, as_json=json))


def drop(letter: Letter, /, *, json: AsJson = False, gateway: GatewayOptions = HERE) -> int:
    """Drop a dead letter for good.

    For example:
        warren dead-letters drop msg_019aa3b7a1c04e5d90ab17ce21d3
    """
    return asyncio.run(_drop(letter, gateway, as_json=json))


async def _ls(gateway: Gateway, limit: int, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        letters = await client.dead_letters(limit=limit)
    if as_json:
        print_json(DeadLetterList(letters=letters))
    else:
        print_letters(letters, make_output())
    return codes.OK


async def _show(letter: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        details = await client.dead_letter(letter)
    if as_json:
        print_json(details)
    else:
        print_letter(details, make_output())
    return codes.OK


async def _republish(letter: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.republish_dead_letter(letter)
    if as_json:
        print_json(view)
    else:
        make_output().line(f"{view.id} went back to {view.origin}")
    return codes.OK


async def _drop(letter: str, gateway: Gateway, *, as_json: bool) -> int:
    async with connected(gateway) as client:
        view = await client.drop_dead_letter(letter)
    if as_json:
        print_json(view)
    else:
        make_output().line(f"{view.id} is gone")
    return codes.OK


def print_letters(letters: tuple[DeadLetterView, ...], output: Output) -> None:
    if not letters:
        output.line("There are no dead letters.")
        return
    columns = ["letter", "from", "holds", "failed", "first seen", "reason"]
    output.table(columns, [_row(letter) for letter in letters], right=["failed"])


def print_letter(details: DeadLetterDetails, output: Output) -> None:
    letter = details.letter
    output.line(letter.id, "bold")
    for label, value in (
        ("from", letter.origin),
        ("reason", letter.reason),
        ("first seen", ago(letter.first_seen_s)),
        ("failed", _times(letter.n_failures)),
        ("holds", f"{_holds(letter)} ({count(letter.size_bytes)} bytes)"),
        ("runs", ", ".join(letter.runs) or "none"),
    ):
        output.line(f"  {label.ljust(11)} {value}")
    for item in details.items:
        output.line(json_module.dumps(item, indent=2, ensure_ascii=False), "dim")


def _row(letter: DeadLetterView) -> tuple[str, ...]:
    failed, seen = _times(letter.n_failures), ago(letter.first_seen_s)
    return (letter.id, letter.origin, _holds(letter), failed, seen, letter.reason)


def _holds(letter: DeadLetterView) -> str:
    return f"{count(letter.n_items)} {letter.kind}" if letter.kind else "not readable"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
