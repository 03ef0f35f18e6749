"""Branches of an episode: what each one quotes, and that each sampled token is in one of them."""

import numpy as np
import pytest
from tests.support.episodes import first_turn, policy
from tests.support.groups import group_of

from warren_env_worker.branching import NoSuchTurn, gone_back
from warren_env_worker.host.protocol import Observed
from warren_env_worker.host.sampled import sampled_of
from warren_env_worker.interaction import misfit
from warren_env_worker.successor import Origin, follow
from warren_gateway.coordinator.learning.credit import credited
from warren_schemas.config import AlgorithmConfig
from warren_schemas.episode import Completed, EpisodeEnded, FinishReason, Generate, Step
from warren_schemas.ids import WorkerId
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import NOT_SAMPLED, ChatMessage, Tokens

BY = Origin(WorkerId("env_1"), 0.0)
START = first_turn(policy("warren/tiny"))


def answered(turn: Generate, words: str, *, version: int = 1) -> Step:
    """Two tokens for whatever is new, and one for each of the policy's letters."""
    old, n_prompt, n_said = turn.transcript.tokens, 2, len(words)
    n = len(old) + n_prompt
    fresh_T = np.arange(n, n + n_said, dtype=np.int32) + 100 * turn.turn
    prompt_T = np.full(n_prompt, 7, np.int32)
    zeros, ones = np.zeros(n_prompt), np.ones(n_said)
    tokens = Tokens(
        ids_T=np.concatenate([old.ids_T, prompt_T, fresh_T]),
        mask_T=np.concatenate([old.mask_T, zeros, ones]).astype(np.uint8),
        logprobs_T=np.concatenate([old.logprobs_T, zeros, -ones]).astype(np.float32),
        versions_T=np.concatenate([old.versions_T, zeros - 1, ones * version]).astype(np.int32),
        sampling_mask=(old.sampling_mask or SamplingMask.none(len(old))).extended(
            n_prompt, SamplingMask.of([fresh_T[i : i + 1] for i in range(n_said)])
        ),
    )
    messages = (*turn.transcript.messages, ChatMessage(role="assistant", content=words))
    transcript = turn.transcript.model_copy(
        update={"messages": messages, "n_rendered": len(messages), "tokens": tokens}
    )
    return Step(
        envelope=turn.envelope,
        spec=turn.spec.model_copy(update={"max_turns": 9}),
        transcript=transcript,
        turn=turn.turn + 1,
        finish=FinishReason.STOP,
    )


def shown(step: Step, text: str, after: int | None = None) -> Generate:
    observed = Observed(1, messages=(("user", text),), digest=text, reward=0.0, after=after)
    item = follow(step, observed, BY).item
    assert isinstance(item, Generate)
    return item


def three_branches() -> Step:
    """`a b` and then `c` behind `a`, `d` behind nothing, `e` behind `b`."""
    first = answered(START, "a")
    second = answered(shown(first, "2"), "bb")
    rewritten = answered(shown(second, "3", after=1), "ccc")
    anew = answered(shown(rewritten, "4", after=0), "d")
    return answered(shown(anew, "5", after=2), "ee")


def test_each_branch_has_the_tokens_of_what_it_follows_and_trains_on_its_own() -> None:
    step = three_branches()
    transcript = step.transcript
    assert misfit(step) is None
    assert transcript.actions == ["a", "bb", "ccc", "d", "ee"]
    assert [transcript.turns_of(n) for n in range(3)] == [[0, 1, 4], [2], [3]]
    linear, rewritten, anew = (branch.tokens for branch in transcript.branches)
    assert linear.mask_T.tolist() == [0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1]
    assert rewritten.mask_T.tolist() == [0, 0, 0, 0, 0, 1, 1, 1]
    assert rewritten.ids_T[:3].tolist() == linear.ids_T[:3].tolist()
    assert rewritten.versions_T[:3].tolist() == [NOT_SAMPLED] * 3
    assert anew.mask_T.tolist() == [0, 0, 1]
    assert transcript.n_sampled == 1 + 2 + 3 + 1 + 2
    assert all(tokens.has_every_mask for tokens in transcript.sequences)


def test_what_is_rendered_behind_a_quoted_turn_is_new_alone() -> None:
    turn = shown(answered(shown(answered(START, "a"), "2"), "b"), "3", after=1)
    transcript = turn.transcript
    assert [(m.role, m.is_quoted) for m in transcript.messages[-2:]] == [
        ("assistant", True), ("user", False),
    ]  # fmt: skip
    assert transcript.n_rendered == len(transcript.messages) - 1
    assert (turn.turn, transcript.branch) == (2, 1)


def test_a_branch_that_goes_on_is_the_same_as_if_nothing_had_come_between() -> None:
    step = three_branches()
    plain = answered(shown(answered(shown(answered(START, "a"), "2"), "bb"), "5"), "ee")
    ours, theirs = step.transcript.branches[0], plain.transcript.branches[0]
    assert [m.content for m in ours.messages] == [m.content for m in theirs.messages]
    assert ours.tokens.mask_T.tolist() == theirs.tokens.mask_T.tolist()


def test_the_environment_sees_each_action_s_own_tokens() -> None:
    sampled = sampled_of(three_branches().transcript, is_cut=True)
    assert [len(each.ids) for each in sampled] == [1, 2, 3, 1, 2]
    assert [each.is_cut for each in sampled] == [False] * 4 + [True]
    assert [len(each.prompt_ids) for each in sampled] == [2, 5, 5, 2, 9]


@pytest.mark.parametrize("after", [-1, 3])
def test_nothing_follows_a_turn_that_there_was_not(after: int) -> None:
    step = answered(shown(answered(START, "a"), "2"), "b")
    with pytest.raises(NoSuchTurn, match=f"there is no turn {after} to go on from"):
        gone_back(step.transcript, after)


def ended(member: int, reward: float) -> EpisodeEnded:
    observed = Observed(1, digest="end", reward=reward, is_over=True)
    item = follow(three_branches(), observed, BY).item
    assert isinstance(item, EpisodeEnded)
    return item.model_copy(update={"spec": item.spec.model_copy(update={"member": member})})


def trained_on(**algorithm: object) -> list[list[float]]:
    members = [ended(0, 1.0), ended(1, 0.0)]
    group = group_of(*members)
    config = AlgorithmConfig.model_validate(algorithm)
    assert all(isinstance(item.outcome, Completed) for item in members)
    return [datum.weights_T.tolist() for datum in credited([group], config)][:3]


def test_every_branch_shares_the_episode_s_reward() -> None:
    branches = [[0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 1]]
    half = [[0.5 * weight for weight in branch] for branch in branches]
    assert trained_on(advantage="group_mean") == half
    by_turn = {"kind": "turn", "discount": 1.0}
    assert trained_on(advantage="group_mean", credit=by_turn) == half


def test_a_critic_gets_what_came_in_other_branches_where_a_branch_ends() -> None:
    last = [[0.0] * 10 + [1.0], [0.0] * 7 + [1.0], [0.0, 0.0, 1.0]]
    assert trained_on(critic={}) == last
