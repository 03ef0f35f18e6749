"""A process that several episodes share: over its memory limit it is replaced, to nobody's harm."""

import asyncio

from tests.support.hosting import Player, hosting, observed, playing, refused
from tests.support.interacting import spec

from warren_env_worker.host.protocol import Observed
from warren_schemas.episode import FailureKind

N_STEPS = 12
"""Of 8 MiB each, where 64 MiB may be taken."""


async def test_episodes_move_when_their_process_has_taken_too_much() -> None:
    async with hosting("Hoarding") as host:
        players = [await playing(host, n_turns=100) for _ in range(2)]
        seen: set[float] = set()
        for _ in range(N_STEPS // 2):
            answers = await asyncio.gather(*(observed(p.step(_letter(p))) for p in players))
            assert [a.reward for a in answers] == [1.0] * 2
            seen |= {a.metrics["process"] for a in answers}
        assert len(seen) > 1


async def test_an_episode_that_takes_far_too_much_at_once_fails_alone() -> None:
    async with hosting("Hoarding") as host:
        greedy, other = [await playing(host, n_turns=100) for _ in range(2)]
        before = await observed(other.step(_letter(other)))
        outcome = await refused(greedy.step("!"))
        assert outcome.kind is FailureKind.ENVIRONMENT_ERROR
        assert outcome.reason.startswith("MemoryError")
        after = await observed(other.step(_letter(other)))
        assert before.metrics == after.metrics


async def test_episodes_that_cannot_move_end_where_they_are_and_new_ones_wait() -> None:
    async with hosting("HoardingUnreplayable") as host:
        old = Player(host, spec(environment_config={"n_turns": N_STEPS}, max_turns=N_STEPS))
        await observed(old.reset())
        first = await observed(old.step(_letter(old)))
        for _ in range(N_STEPS - 2):
            await observed(old.step(_letter(old)))
        new = Player(host, spec(environment_config={"n_turns": 100}))
        waiting = asyncio.create_task(new.reset())
        last = await observed(old.step(_letter(old)))
        assert last.is_over
        assert last.metrics == first.metrics
        assert isinstance(await waiting, Observed)
        moved = await observed(new.step(_letter(new)))
        assert moved.metrics != first.metrics


def _letter(player: Player) -> str:
    return player.transcript.messages[-1].content
