"""Where an env worker sends the policy's turns: to whoever took the one before, if it is still there."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.support.episodes import first_turn, policy
from tests.support.inboxes import claim_items
from tests.support.interacting import start
from tests.support.patience import PATIENCE_S

from warren_broker.inbox import receive
from warren_broker.memory import open_hub
from warren_broker.successors import open_successor_publisher
from warren_broker.topology import generate, sampler_home
from warren_env_worker.host.protocol import Observed
from warren_env_worker.interaction import Interaction
from warren_env_worker.successor import Origin, Successor, follow
from warren_schemas.codec.wire import encode
from warren_schemas.config import Sampling
from warren_schemas.episode import Completed, EpisodeEnded, Failed, FinishReason, Generate, Step
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
    shown = Observed(1, (("user", "?"),), "d", task_number=7, task_id="a/7", category="algebra")
    first = follow(start(), shown, by).item
    told = first.transcript
    assert (told.task_number, told.task_id, told.category) == (7, "a/7", "algebra")
    taken = step(None).model_copy(update={"transcript": first.transcript})
    told = follow(taken, GOES_ON, by).item.transcript
    assert (told.task_number, told.task_id, told.category) == (7, "a/7", "algebra")


def test_words_that_are_quoted_with_a_picture_are_no_action_either() -> None:
    picture = ("image/png", "aGk=")
    shown = Observed(1, (("user", "?"), ("assistant", "this one", (picture,))), "d")
    item = follow(start(), shown, Origin(WorkerId("env_1"), 0.0)).item
    assert item.transcript.actions == []
    assert item.transcript.messages[1].images


def test_tokens_are_shown_as_they_are_and_nothing_of_them_is_left_to_render() -> None:
    by = Origin(WorkerId("env_1"), 0.0)
    first = follow(start(), Observed(1, ids=(5, 6), digest="d"), by).item
    assert isinstance(first, Generate) and first.is_plain
    taken = sampled(first, 7)
    later = follow(taken, Observed(2, ids=(8,), digest="d"), by).item
    branch = follow(sampled(later, 9), Observed(3, ids=(4,), digest="d", after=1), by).item
    for item in (later, branch):
        assert isinstance(item, Generate) and item.is_plain
        assert item.transcript.n_rendered == len(item.transcript.messages)
        assert item.transcript.messages[-1].n_tokens == 1
    assert later.transcript.tokens.ids_T.tolist() == [5, 6, 7, 8]
    assert later.transcript.tokens.mask_T.tolist() == [0, 0, 1, 0]
    assert branch.transcript.tokens.ids_T.tolist() == [5, 6, 7, 4]
    assert branch.transcript.tokens.n_sampled == 0
    assert [len(tokens) for tokens in branch.transcript.sequences] == [5, 4]


@pytest.mark.parametrize(
    ("limits", "shown", "is_over"),
    [
        ({"max_turns": 1}, [999_999], False),
        ({"sampling": Sampling(max_total_tokens=9)}, range(20), False),
        ({}, [999_999], True),
    ],
)
def test_an_episode_ends_without_the_tokens_that_nobody_answered(
    limits: dict[str, object], shown: Sequence[int], is_over: bool
) -> None:
    """They may be none of the vocabulary, or too many for the trainer."""
    by = Origin(WorkerId("env_1"), 0.0)
    first = follow(start(), Observed(1, ids=(5, 6), digest="d"), by).item
    said = sampled(first, 7)
    taken = said.model_copy(update={"spec": said.spec.model_copy(update=limits)})
    last = Observed(2, ids=tuple(shown), digest="d", reward=1.0, is_over=is_over)
    item = follow(taken, last, by).item
    assert isinstance(item, EpisodeEnded) and isinstance(item.outcome, Completed)
    assert item.transcript.tokens.ids_T.tolist() == [5, 6, 7]
    assert item.transcript.tokens.mask_T.tolist() == [0, 0, 1]
    assert item.transcript.messages[-1].n_tokens == len(shown)
    assert item.transcript.n_rendered == len(item.transcript.messages) - 1


@pytest.mark.parametrize(
    ("shown", "reason"),
    [
        (Observed(2, ids=(4,) * 600_000, digest="d"), "the messages and tokens add up to 78000"),
        (Observed(2, (("user", "\1" * 999_000), ("user", "4")), "d"), None),
        (Observed(2, (("user", "4" * 1_000_001),), "d"), "the messages add up to 10000"),
    ],
)
def test_what_follows_fits_into_a_message(shown: Observed, reason: str | None) -> None:
    """Or the episode fails, with what was said before."""
    by = Origin(WorkerId("env_1"), 0.0)
    taken = sampled(follow(start(), Observed(1, ids=(5, 6), digest="d"), by).item, 7)
    item = follow(taken, shown, by).item
    assert encode([item])
    if reason is None:
        assert isinstance(item, Generate)
        return
    assert isinstance(item, EpisodeEnded) and isinstance(item.outcome, Failed)
    assert item.outcome.reason.startswith(reason)
    assert item.transcript == taken.transcript


def test_an_episode_that_is_over_needs_no_room_for_tokens_that_nobody_answers() -> None:
    by = Origin(WorkerId("env_1"), 0.0)
    taken = sampled(follow(start(), Observed(1, ids=(5, 6), digest="d"), by).item, 7)
    over = Observed(2, ids=(4,) * 1_200_000, digest="d", reward=1.0, is_over=True)
    item = follow(taken, over, by).item
    assert isinstance(item, EpisodeEnded) and isinstance(item.outcome, Completed)
    assert encode([item])


def test_the_words_that_nobody_answered_stay() -> None:
    taken = step(None)
    over = Observed(2, (("user", "bye"),), "d", reward=1.0, is_over=True)
    item = follow(taken, over, Origin(WorkerId("env_1"), 0.0)).item
    assert item.transcript.messages[-1].content == "bye"
    assert item.transcript.tokens is taken.transcript.tokens


def test_messages_behind_tokens_are_a_chat_again() -> None:
    by = Origin(WorkerId("env_1"), 0.0)
    first = follow(start(), Observed(1, ids=(5, 6), digest="d"), by).item
    item = follow(sampled(first, 7), GOES_ON, by).item
    assert isinstance(item, Generate) and not item.is_plain
    assert item.transcript.n_rendered == len(item.transcript.messages) - 1


def test_a_step_whose_tokens_are_others_is_not_that_of_the_live_environment() -> None:
    by = Origin(WorkerId("env_1"), 0.0)
    interaction = Interaction.begin(start(), 0)
    interaction.successor = follow(start(), Observed(1, ids=(5, 6), digest="d"), by)
    other = follow(start(), Observed(1, ids=(5, 7), digest="d"), by).item
    assert interaction.leads_to(sampled(interaction.successor.item, 7))
    assert not interaction.leads_to(sampled(other, 7))


def sampled(asked: Generate | EpisodeEnded, token: int) -> Step:
    """The policy says one token."""
    before = asked.transcript.tokens
    tokens = before.prompted([token]).model_copy(
        update={"mask_T": np.append(before.mask_T, np.uint8(1))}
    )
    messages = (*asked.transcript.messages, ChatMessage(role="assistant", content="a"))
    said = {"messages": messages, "n_rendered": len(messages), "tokens": tokens}
    return step(None).model_copy(
        update={
            "transcript": asked.transcript.model_copy(update=said),
            "turn": len(asked.transcript.turns) + 1,
        }
    )


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
