"""One thing at a time: what exactly happens when this one part dies, freezes or is away.

All tests share a site, since booting one takes longer than most of them. Each leaves it whole.
"""

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from tests.chaos.environments import at_gate
from tests.chaos.ledger import Books, check_books, check_store, read_books
from tests.chaos.part import Part
from tests.chaos.sampler_child import DIGEST_BYTES
from tests.chaos.site import Site, new_home, open_site
from tests.chaos.storm import (
    MAX_STALENESS,
    config,
    coordinator_of,
    has_begun,
    onlooker,
    until_quiet,
    until_tidy,
)
from tests.chaos.zombies import asleep, holders_of, settled, until_passed_on
from tests.support.patience import PATIENCE_S, several_waits
from tests.support.processes import until_none

from warren import Event, Run
from warren_schemas.events import StateChanged, StepCompleted

pytestmark = [
    pytest.mark.storm,
    pytest.mark.asyncio(loop_scope="module"),
    several_waits,
]

N_LIVE = 200
N_TURNS = 16
GATE_TURN = N_TURNS - 4
N_STEPS = 24
ZOMBIE_STEPS = 40
AWAY_S = 8.0

log = logging.getLogger(__name__)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(request: pytest.FixtureRequest) -> AsyncGenerator[Site]:
    home, n_failed = new_home(), request.session.testsfailed
    print(f"logs lie in {home}, and stay there if a test fails")
    async with open_site(home, n_gateways=2, n_gpu_workers=2, n_env_workers=3) as site:
        yield site
    if request.session.testsfailed == n_failed:
        shutil.rmtree(home)


def bounded(name: str, steps: int, **changes: object) -> dict[str, object]:
    """A run that ends after this many steps."""
    limits = {"steps": steps, "episode_s": 90, "episode_attempts": 20}
    return config(name, **{"limits": limits, **changes})


async def books_of(site: Site, run: Run) -> Books:
    async with onlooker(site) as broker:
        return await read_books(site.store_url, broker, run.id, site.home / "ledger")


def turns_shown(ledger: Path) -> set[bytes]:
    """What samplers were shown, but for first turns. Duplicates of a message show the same again."""
    told = [path.read_bytes() for path in ledger.glob("*.shown")]
    ends = range(DIGEST_BYTES, max(map(len, told), default=0) + 1, DIGEST_BYTES)
    return {one[end - DIGEST_BYTES : end] for one in told for end in ends if end <= len(one)}


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110 - other processes have no event for us
            await asyncio.sleep(0.2)


async def in_the_end(check: Callable[[], None]) -> None:
    """Return when it finds nothing; else, after a while, with what it finds."""
    end_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < end_s:
        with contextlib.suppress(AssertionError):
            return await asyncio.to_thread(check)
        await asyncio.sleep(0.2)
    await asyncio.to_thread(check)


async def test_episodes_of_a_killed_env_worker_go_on_from_their_turn(site: Site) -> None:
    """Of 200 live episodes none starts over, and none goes back behind the turn before the one in flight.

    All stand at a gate near their end when the worker is killed, lest a slow machine finds them over before it
    looks. A step that was answered and is not acked yet goes on twice, to the end: the policy goes another way.
    """
    crowd = {"group_size": 4, "groups_per_step": N_LIVE // 4, "max_staleness": 0}
    limits = {"steps": 1, "episode_s": 600, "episode_attempts": 20}
    gate = site.home / "a-gate"
    gated = {"n_turns": N_TURNS, "step_s": 0.3, "gate": str(gate), "gate_turn": GATE_TURN}
    walk = [{"name": "walk", "config": gated}]
    ledger = site.home / "ledger"

    async def all_stand() -> bool:
        standing = await asyncio.to_thread(at_gate, gate)
        return len(set[tuple[int, int]]().union(*standing.values())) == N_LIVE

    async with site.client() as client:
        shown = turns_shown(ledger)
        run = await client.train(
            bounded("crowd", 1, algorithm=crowd, environments=walk, limits=limits)
        )
        await eventually(all_stand)
        standing = at_gate(gate)
        victim = max(site.of_role("env"), key=lambda part: len(standing.get(part.pid, ())))
        held = standing[victim.pid]
        victim.kill()
        gate.touch()
        await run.result()
        victim.start()
    books = await books_of(site, run)
    check_books(books, max_staleness=0)
    first = books.first_endings()
    replayed = {(ending.task, ending.member) for ending in first if ending.n_recoveries > 0}
    n_again = len(turns_shown(ledger) - shown) - sum(ending.n_turns - 1 for ending in first)
    log.info("%d held, %d replayed, %d turns played again", len(held), len(replayed), n_again)
    assert len(first) == books.n_admitted == N_LIVE
    assert all(ending.is_completed and ending.attempt == 1 for ending in first)
    assert replayed == held
    assert 0 <= n_again <= len(held) * (N_TURNS - GATE_TURN + 1)


async def test_zombies_of_every_role_change_nothing_when_they_wake(site: Site) -> None:
    """The coordinator, a trainer with its sampler, and an env worker, all at once."""
    async with site.client() as client:
        run = await client.train(bounded("zombies", ZOMBIE_STEPS))
        await has_begun(run)
        before = await holders_of(site, client, run, patience_s=PATIENCE_S)
        with asleep(before.gateway, before.trainer, before.env_worker):
            site.address.cut()
            await until_passed_on(site, run, before, patience_s=PATIENCE_S)
            over = await asyncio.to_thread(settled, site, run)
        result = await run.result()

    async def has_noticed() -> bool:
        told = await asyncio.to_thread(before.gateway.log_path.read_text)
        return f"{run.id}: another gateway has taken over" in told

    after = await asyncio.to_thread(settled, site, run)
    assert result.updates == ZOMBIE_STEPS
    kept = {key: row for key, row in over.items() if key in after or key[0] == "group"}
    assert {key: after[key] for key in kept} == kept  # ops go once a checkpoint holds them
    assert len(after) > len(over), "the zombies woke after the run"
    await eventually(has_noticed)
    check_books(await books_of(site, run), max_staleness=MAX_STALENESS)


async def test_a_run_outlives_its_servers_and_its_readers_read_on(site: Site) -> None:
    """The broker, the store and the gateway go one after the other; every event comes once."""

    async def lose_gateway() -> None:
        holder, _ = await coordinator_of(site, run)
        holder.kill()
        site.address.cut()
        killed.append(holder)

    faults = {
        5: ("broker", lambda: site.lose_broker(AWAY_S)),
        12: ("store", lambda: site.lose_store(AWAY_S)),
        18: ("gateway", lose_gateway),
    }
    killed, events = list[Part](), list[Event]()
    lost: list[str] = []
    async with site.client() as client:
        run = await client.train(bounded("servers", N_STEPS))
        back_s, name = 0.0, ""
        async for event in run.events(on_connection=lambda error: lost.append(str(error))):
            events.append(event)
            if not isinstance(event.body, StepCompleted):
                continue
            if name:
                log.info(
                    "%.1f s after the %s was lost a step came", time.monotonic() - back_s, name
                )
            name, lose = faults.get(event.body.step, ("", None))
            if lose is not None:
                await lose()
                back_s = time.monotonic()
        result = await run.result()
    for part in killed:
        part.start()
    assert lost, "the reader's gateway was never away"
    offsets = [event.offset for event in events]
    assert offsets == sorted(set(offsets))
    bodies = [event.body for event in events]
    steps = [body.step for body in bodies if isinstance(body, StepCompleted)]
    assert steps == list(range(1, N_STEPS + 1))
    assert isinstance(bodies[-1], StateChanged)
    assert result.failed_episodes == 0
    check_books(await books_of(site, run), max_staleness=MAX_STALENESS)


@pytest.mark.thorough
async def test_a_greedy_run_in_a_slow_environment_slows_only_itself(site: Site) -> None:
    """It wants 10,000 episodes at once where there is capacity for 16, and another run wants 8 of them."""
    stroll = [{"name": "stroll", "config": {"n_turns": 4, "step_s": 1.0}}]
    lots = {"group_size": 4, "groups_per_step": 2500, "max_staleness": 0}
    limits = {"steps": 1, "in_flight": 100_000, "episode_s": 600}
    await site.add_env_workers(1, "--capacity", "16", environment="Stroll")
    async with site.client() as client:

        async def has_live(n: int) -> bool:
            return any(w.in_flight == n for w in await client.workers() if "stroll" in w.offers)

        await eventually(lambda: has_live(0))
        greedy = await client.train(
            config("greedy", algorithm=lots, environments=stroll, limits=limits)
        )
        await eventually(lambda: has_live(16))
        depths = await asyncio.to_thread(site.rabbit.queues)
        modest = await client.train(bounded("modest", 2, environments=stroll))
        elsewhere = await client.train(bounded("elsewhere", 5))
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(modest.result(), elsewhere.result())
        assert (await greedy.refresh()).step == 0
        await greedy.cancel()
    assert depths["warren.interact.stroll"] <= 2, "messages of 64 episodes that wait before others"
    for run in (modest, elsewhere):
        check_books(await books_of(site, run), max_staleness=MAX_STALENESS)


@pytest.mark.thorough
async def test_nothing_is_left_behind(site: Site) -> None:
    """The last test of this site: no lease, no unsent message, no queue of a run that is over."""
    async with site.client() as client:
        await until_quiet(client)
    await until_tidy(site)
    await in_the_end(lambda: check_store(site.store_url))
    await asyncio.to_thread(site.stop)
    await until_none(site.left_behind)
