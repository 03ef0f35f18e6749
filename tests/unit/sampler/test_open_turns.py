"""The sampler's ledger: turns are counted until they are settled, and handed out for one end."""

import asyncio

from tests.support.items import generate
from tests.support.open_turns import Claimed, request

from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns, TurnSource

SHARED, OWN = TurnSource.SHARED, TurnSource.OWN


def opened(turns: OpenTurns, n: int, source: TurnSource = SHARED) -> list[OpenTurn]:
    return turns.open([Claimed(generate()) for _ in range(n)], source)


def ending(turn: OpenTurn) -> str | None:
    assert isinstance(turn.claim, Claimed)
    return turn.claim.ending


def test_each_end_settles_the_claim_and_only_confirmed_successors_count_as_done() -> None:
    turns = OpenTurns(10)
    done, dropped, back, dead = opened(turns, 4)
    done.done()
    assert (turns.n_open, turns.n_done) == (3, 1)
    dropped.drop()
    back.hand_back(delay_s=1.0)
    dead.dead_letter("no use")
    assert (turns.n_open, turns.n_done) == (0, 1)
    assert [ending(t) for t in (done, dropped, back, dead)] == [
        "done", "done", "handed back", "no use",
    ]  # fmt: skip


async def test_each_source_has_a_capacity_of_its_own_and_who_settles_frees_it() -> None:
    turns = OpenTurns(2)
    first, _ = opened(turns, 2)
    assert turns.is_full(SHARED)
    assert not turns.is_full(OWN)
    await turns.until_not_full(OWN)
    waiting = asyncio.create_task(turns.until_not_full(SHARED))
    await asyncio.sleep(0)
    (other,) = opened(turns, 1, OWN)
    other.done()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    first.hand_back()
    await waiting


async def test_a_turn_is_released_once_and_its_deadline_rings_no_more() -> None:
    turns, rang = OpenTurns(10), asyncio.Queue[int]()
    loop = asyncio.get_running_loop()
    first, second = opened(turns, 2)
    for turn in (first, second):
        turns.owe(turn, request(turn.id))
        turn.deadline = loop.call_later(0.0, rang.put_nowait, turn.id)
    assert turns.release([first.id, 99]) == [first]
    assert not turns.release([first.id])
    assert turns.owed() == [second]
    assert (turns.n_owed, turns.n_open) == (1, 2)
    assert await rang.get() == second.id
    assert rang.empty()


def test_attempts_are_counted_while_the_turn_is_owed() -> None:
    turns = OpenTurns(10)
    first, second = opened(turns, 2)
    turns.owe(first, request(first.id))
    turns.attempted([first.id, second.id])
    turns.attempted([first.id])
    assert (first.n_attempts, second.n_attempts) == (2, 0)


def test_owing_goes_on_from_the_first_of_an_unbroken_row() -> None:
    turns = OpenTurns(10)
    first, second, third = opened(turns, 3)
    turns.owe(first, request(first.id))
    since_s = turns.owed_since_s
    turns.owe(second, request(second.id))
    assert turns.owed_since_s == since_s
    turns.release([first.id, second.id])
    turns.owe(third, request(third.id))
    assert turns.owed_since_s > since_s
