"""What users and runs have used."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Literal

from cyclopts import Parameter

from warren.cli import codes
from warren.cli.connecting import connected
from warren.cli.options import HERE, AsJson, Gateway, GatewayOptions
from warren.display.output import make_output, print_json
from warren.display.words import count
from warren.errors import ConfigurationError
from warren_schemas.users.usage import UsageBy, UsageList, UsageView

MIB = 1024 * 1024
HEADS = (
    "training GPU-s",
    "sampling GPU-s",
    "tokens trained",
    "tokens sampled",
    "episodes",
    "stored",
)


def usage(
    *,
    by: Annotated[Literal["run", "user", "day"], Parameter(help="One row for each.")] = "user",
    user: Annotated[str | None, Parameter(help="Only of this user (for admins).")] = None,
    since: Annotated[str | None, Parameter(help="From this day on, as 2026-11-23, UTC.")] = None,
    json: AsJson = False,
    gateway: GatewayOptions = HERE,
) -> int:
    """Show GPU-seconds, tokens, episodes and stored bytes: yours, for admins those of all users.

    For example:
        warren usage
        warren usage --by run --since 2026-11-01
        warren usage --user ann --by day
    """
    return asyncio.run(_usage(by, user, _since_s(since), gateway, as_json=json))


def _since_s(day: str | None) -> float:
    if day is None:
        return 0.0
    try:
        return max(0.0, datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp())
    except ValueError as error:
        raise ConfigurationError(
            f"--since: {day!r} is no day", hint="Write it as 2026-11-23."
        ) from error


async def _usage(
    by: UsageBy, user: str | None, since_s: float, gateway: Gateway, *, as_json: bool
) -> int:
    async with connected(gateway) as client:
        rows = await client.access.usage(by=by, user=user, since_s=since_s)
    if as_json:
        print_json(UsageList(usage=rows))
        return codes.OK
    keys = {"run": ("run", "name", "user"), "user": ("user",), "day": ("day",)}[by]
    heads = HEADS[: -1 if by == "day" else None]
    table = [(*_keys(row, keys), *_figures(row)[: len(heads)]) for row in rows]
    make_output().table([*keys, *heads], table, right=list(heads))
    return codes.OK


def _keys(row: UsageView, names: tuple[str, ...]) -> tuple[str, ...]:
    values = {"run": row.run, "name": row.name, "user": row.user, "day": row.day}
    return tuple(values[name] or "" for name in names)


def _figures(row: UsageView) -> tuple[str, ...]:
    return (
        f"{row.training_gpu_s:,.1f}",
        f"{row.sampling_gpu_s:,.1f}",
        count(row.n_tokens_trained),
        count(row.n_tokens_sampled),
        count(row.n_episodes),
        f"{(row.stored_bytes or 0) / MIB:,.1f} MiB",
    )
