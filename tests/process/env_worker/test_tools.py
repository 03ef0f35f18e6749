"""Environments with tools, in a process."""

from tests.support.forked_hosts import hosted
from tests.support.hosting import Player, observed
from tests.support.interacting import spec
from tests.support.tool_calls import CALLS, HERMES, XML


async def test_row_57_the_run_says_which_format() -> None:
    async with hosted("tests.unit.env_worker.test_tools:Calculator") as host:
        player = Player(host, spec("calculator", tool_format=XML))
        first = await observed(player.reset())
        assert "<function=NAME>" in first.messages[0][1]
        answer = await observed(player.step(CALLS[XML]))
        assert answer.messages == [["tool", "5"]]


async def test_a_score_is_added_at_the_end_or_at_the_last_turn() -> None:
    async with hosted("tests.unit.env_worker.test_tools:Scored") as host:
        player = Player(host, spec("scored", max_turns=2))
        await observed(player.reset())
        await observed(player.step(CALLS[HERMES]))
        last = await observed(player.step(CALLS[HERMES]))
        assert (last.reward, last.is_over, last.is_truncated) == (0.25, True, True)
        assert last.metrics["style"] == 0.5
