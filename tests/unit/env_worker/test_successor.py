"""Where an env worker sends the policy's turns: to whoever took the one before, if it is still there."""

import asyncio
from pathlib import Path

from tests.support.episodes import first_turn, policy
from tests.support.inboxes import claim_items
from tests.support.interacting import start
from tests.support.patience import PATIENCE_S

from warren_broker.inbox import receive
from warren_broker.memory import open_hub
from warren_broker.successors import open_successor_publisher
from warren_broker.topology import generate, sampler_home
from warren_env_worker.host.protocol import Observed
from warren_env_worker.successor import Origin, Successor, follow
from warren_schemas.episode import FinishReason, Generate, Step
from warren_schemas.ids import WorkerId
from warren_schemas.transcript import ChatMessage

BASE = "warren/tiny"
GOES_ON = Observed(1, messages=(("user", "again"),), digest="d", reward=0.0)


class Settled:
    """A claim that remembers its end."""

    def __init__(self, item: Step) -> None:
        self.item = item
        self.n_deliveries = 1
        self.offset = None
        self.is_done = asyncio.Event()

    def done(self) -> None:
        self.is_done.set()

    def hand_back(self, *, delay_s: float = 0.0) -> None:
        raise AssertionError("handed back")

    def dead_letter(self, reason: str) -> None:
        raise AssertionError(reason)


def step(return_to: str | None) -> Step:
    turn = first_turn(policy(BASE))
    messages = (*turn.transcript.messages, ChatMessage(role="assistant", content="a"))
    return Step(
        envelope=turn.envelope,
        spec=turn.spec,
        transcript=turn.transcript.model_copy(update={"messages": messages}),
        turn=1,
        finish=FinishReason.STOP,
        return_to=return_to,
    )


def successor(of: Step) -> Successor:
    return follow(of, GOES_ON, Origin(WorkerId("env_1"), 0.0))


def test_the_transcript_says_which_task_it_is_and_keeps_it() -> None:
    by = Origin(WorkerId("env_1"), 0.0)
    shown = Observed(1, (("user", "?"),), "d", task_number=7, category="algebra")
    first = follow(start(), shown, by).item
    assert (first.transcript.task_number, first.transcript.category) == (7, "algebra")
    taken = step(None).model_copy(update={"transcript": first.transcript})
    later = follow(taken, GOES_ON, by).item
    assert (later.transcript.task_number, later.transcript.category) == (7, "algebra")


def test_words_that_are_quoted_with_a_picture_are_no_action_either() -> None:
    picture = ("image/png", "aGk=")
    shown = Observed(1, (("user", "?"), ("assistant", "this one", (picture,))), "d")
    item = follow(start(), shown, Origin(WorkerId("env_1"), 0.0)).item
    assert item.transcript.actions == []
    assert item.transcript.messages[1].images


def test_a_reward_that_is_given_late_is_that_of_its_turn() -> None:
    by = Origin(WorkerId("env_1"), 0.0)
    before = follow(step(None), GOES_ON, by).item
    said = ChatMessage(role="assistant", content="b")
    told = before.transcript.model_copy(update={"messages": (*before.transcript.messages, said)})
    taken = step(None).model_copy(update={"transcript": told, "turn": 2})
    late = Observed(2, (("user", "again"),), "d", reward=0.25, earlier=[(1, 0.5)])
    for item in (follow(taken, late, by).item, follow(taken, late, by).item):
        assert [turn.reward for turn in item.transcript.turns] == [0.5, 0.25]


def test_the_next_turn_goes_back_where_the_last_one_was_taken() -> None:
    assert successor(step("sampler_1")).address == sampler_home("sampler_1", BASE)
    assert successor(step(None)).address == generate(BASE)


async def test_when_that_sampler_is_gone_the_turn_goes_to_any(tmp_path: Path) -> None:
    steps = [step("sampler_1"), step("sampler_2"), step(None)]
    async with open_hub(tmp_path) as hub:
        broker = hub.client("env worker")
        async with open_successor_publisher(broker) as publisher:
            claims = [Settled(each) for each in steps]
            for claim in claims:
                after = successor(claim.item)
                publisher.put(after.address, after.item, [claim])
            async with asyncio.timeout(PATIENCE_S):
                for claim in claims:
                    await claim.is_done.wait()
            async with receive(broker, generate(BASE), Generate, prefetch=8) as inbox:
                sent = [claim.item.envelope.episode for claim in await claim_items(inbox, 3)]
        assert sorted(map(str, sent)) == sorted(str(each.envelope.episode) for each in steps)
        await broker.close()
