"""Zombies: processes that are stopped until all that they held has passed on, and then wake up.

What the store holds before they wake is what it must hold afterwards: whatever a zombie still says
about work that was taken from it changes nothing.
"""

import asyncio
import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import cast

import psycopg
from tests.chaos.part import Part
from tests.chaos.site import Site
from tests.chaos.storm import ask_store, coordinator_of

from warren import Client, Run

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Holders:
    """Who holds what of a run, and under which epochs."""

    gateway: Part
    trainer: Part
    env_worker: Part
    run_epoch: int
    model_epoch: int
    newest_group: int


async def holders_of(site: Site, client: Client, run: Run, *, patience_s: float) -> Holders:
    """The run's coordinator, its trainer, and the env worker with the most episodes."""
    async with asyncio.timeout(patience_s):
        while (holders := await _holders_of(site, client, run)) is None:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.2)
    return holders


async def _holders_of(site: Site, client: Client, run: Run) -> Holders | None:
    """None while the gateway has not heard of them all."""
    gateway, run_epoch = await coordinator_of(site, run)
    query = "SELECT holder, epoch FROM model WHERE run_id = %s"
    holder, model_epoch = await ask_store(site, query, run.id)
    workers = await client.workers()
    trainer = next((w.pid for w in workers if w.id == holder), None)
    env_pids = {part.pid for part in site.of_role("env")}
    players = [w for w in workers if w.pid in env_pids]
    if trainer is None or not players:
        return None
    busiest = max(players, key=lambda w: w.in_flight)
    newest = "SELECT max(number) FROM episode_group WHERE run_id = %s"
    (newest_group,) = await ask_store(site, newest, run.id)
    by_pid = {part.pid: part for part in site.parts.values()}
    return Holders(
        gateway,
        by_pid[trainer],
        by_pid[busiest.pid],
        run_epoch,
        int(str(model_epoch)),
        int(str(newest_group)),
    )


@contextlib.contextmanager
def asleep(*parts: Part) -> Generator[None]:
    """Stopped and cut off from the broker, as a server does after two silent heartbeats.

    They wake at the end whatever happens, or they would haunt the tests that follow.
    """
    try:
        for part in parts:
            part.freeze()
            part.broker_link.cut()
        yield
    finally:
        for part in parts:
            part.thaw()


async def until_passed_on(site: Site, run: Run, before: Holders, *, patience_s: float) -> None:
    """Return when others have the run and the model, and all episodes of that time have ended."""
    held: list[str] = []
    try:
        async with asyncio.timeout(patience_s):
            while held := await still_held(site, run, before):  # noqa: ASYNC110 - no event for us
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"after {patience_s:g} s: {', '.join(held)}") from None


async def still_held(site: Site, run: Run, before: Holders) -> list[str]:
    """What has not passed on yet, in words."""
    query = "SELECT epoch, state, waiting_for FROM run WHERE id = %s"
    run_epoch, state, waiting_for = await ask_store(site, query, run.id)
    query = "SELECT epoch, holder, is_opened FROM model WHERE run_id = %s"
    model_epoch, holder, is_opened = await ask_store(site, query, run.id)
    query = "SELECT count(*) FROM episode_group WHERE run_id = %s AND is_open AND number <= %s"
    (n_open,) = await ask_store(site, query, run.id, str(before.newest_group))
    held: list[str] = []
    if cast("int", run_epoch) <= before.run_epoch:
        held.append(f"the run is in its epoch {run_epoch}")
    if cast("int", model_epoch) <= before.model_epoch or not is_opened:
        held.append(f"the model, in epoch {model_epoch}, is not open at {holder}")
    if n_open:
        held.append(f"{n_open} groups are open")
    return [*held, f"the run is {state} and waits for {waiting_for}"] if held else []


def settled(site: Site, run: Run) -> dict[tuple[str, str], Row]:
    """All that the store says is over: what became of each group, and the answer to each op."""
    groups = (
        "SELECT 'group', id, attempts::text, outcomes::text FROM episode_group"
        " WHERE run_id = %s AND NOT is_open"
    )
    ops = (
        "SELECT 'op', number::text, kind, md5(body), outcome::text FROM op JOIN model"
        " ON model.id = op.model_id WHERE run_id = %s AND outcome IS NOT NULL"
    )
    with psycopg.connect(site.store_url.replace("+psycopg", "")) as connection:
        rows = [*connection.execute(groups, [run.id]), *connection.execute(ops, [run.id])]
    return {(str(row[0]), str(row[1])): row[2:] for row in rows}
