"""From rewards to advantages, and from advantages to a weight for each token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.groups import group_of

from warren_gateway.coordinator.learning.advantages import advantages
from warren_gateway.coordinator.learning.credit import (
    credited,
    has_signal,
    n_inseparable,
    n_without_signal,
    turn_returns,
    turn_rewards,
)
from warren_gateway.coordinator.learning.steps import objective
from warren_gateway.coordinator.learning.training import step_data
from warren_schemas.config import (
    AdvantageKind,
    AlgorithmConfig,
    DroLoss,
    RewardRules,
    Sampling,
)
from warren_schemas.envelope import Envelope
from warren_schemas.episode import (
    Completed,
    EpisodeEnded,
    EpisodeSpec,
    PolicyRef,
    StopReason,
    TaskRef,
)
from warren_schemas.ids import GroupId, ModelId
from warren_schemas.training import CriticTerm
from warren_schemas.transcript import Tokens, Transcript, Turn

KINDS = list(AdvantageKind)
ONE = np.array([0.0, 1.0, 1.0, 0.0])
OTHER = np.array([2.0, 4.0])
SAME = np.array([3.0, 3.0, 3.0])
BATCH = np.concatenate([ONE, OTHER])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (AdvantageKind.GROUP_MEAN, [ONE - 0.5, OTHER - 3.0]),
        (AdvantageKind.GROUP_STD, [(ONE - 0.5) / (1 / 3**0.5), (OTHER - 3.0) / 2**0.5]),
        (AdvantageKind.LEAVE_ONE_OUT, [np.array([-2, 2, 2, -2]) / 3, np.array([-2.0, 2.0])]),
        (AdvantageKind.DIRECT, [ONE, OTHER]),
        (AdvantageKind.CENTERED, [ONE - 0.5, OTHER - 3.0]),
        (AdvantageKind.CENTERED_NORMALIZED, [(ONE - 0.5) * 3**0.5, (OTHER - 3.0) / 2**0.5]),
        (AdvantageKind.BATCH_MEAN, [ONE - BATCH.mean(), OTHER - BATCH.mean()]),
        (
            AdvantageKind.BATCH_STD,
            [(g - BATCH.mean()) / BATCH.std(ddof=1) for g in (ONE, OTHER)],
        ),
    ],
)
def test_each_method_is_its_formula(kind: AdvantageKind, expected: list[np.ndarray]) -> None:
    first, middle, last = advantages([ONE, SAME, OTHER], kind)

    assert middle is None
    assert first == pytest.approx(expected[0], rel=1e-3)
    assert last == pytest.approx(expected[1], rel=1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rewards", [[1.0], [0.5, 0.5, 0.5], []])
def test_equal_returns_carry_no_signal(kind: AdvantageKind, rewards: list[float]) -> None:
    assert advantages([np.array(rewards)], kind) == [None]
    assert advantages([], kind) == []


@given(
    st.lists(st.lists(st.floats(-9, 9, width=16), min_size=2, max_size=6), min_size=1, max_size=5),
    st.sampled_from(KINDS),
)
def test_advantages_keep_the_order_of_returns(
    groups: list[list[float]], kind: AdvantageKind
) -> None:
    for group, found in zip(groups, advantages([np.array(g) for g in groups], kind), strict=True):
        if found is not None:
            assert np.isfinite(found).all()
            assert np.array_equal(np.argmax(found), np.argmax(group))


def ended(member: int, rewards: list[float | None], runs: list[tuple[int, int]]) -> EpisodeEnded:
    """An episode whose tokens alternate: so many given, so many sampled."""
    mask_T = np.concatenate([np.r_[np.zeros(g), np.ones(s)] for g, s in runs]).astype(np.uint8)
    tokens = Tokens(
        ids_T=np.arange(mask_T.size, dtype=np.int32),
        mask_T=mask_T,
        logprobs_T=-0.5 * mask_T.astype(np.float32),
        versions_T=np.where(mask_T, 0, -1).astype(np.int32),
    )
    spec = EpisodeSpec(
        group=GroupId("g"),
        member=member,
        environment="guess",
        task=TaskRef(index=0),
        seed=0,
        policy=PolicyRef(model=ModelId("m"), base_model="tiny", min_version=0),
        sampling=Sampling(),
        max_turns=4,
    )
    turns = tuple(Turn(reward=reward, digest="d") for reward in rewards)
    transcript = Transcript(tokens=tokens, turns=turns)
    return EpisodeEnded(
        envelope=Envelope(),
        spec=spec,
        transcript=transcript,
        outcome=Completed(reward=transcript.reward),
        worker="w",
        started_s=0.0,
        ended_s=1.0,
    )


def test_returns_are_discounted_by_turn() -> None:
    rewards = turn_rewards(ended(0, [1.0, None, 4.0], [(1, 1)] * 3))
    assert turn_returns(rewards, 0.5) == [2.0, 2.0, 4.0]
    assert turn_returns(rewards, 0.0) == [1.0, 0.0, 4.0]


@pytest.mark.parametrize("algorithm", [{"credit": {"kind": "turn"}}, {"critic": {}}])
def test_the_last_turn_of_a_truncated_episode_has_its_extra_reward(
    algorithm: dict[str, object],
) -> None:
    def trained_on(extra: float | None) -> list[list[float]]:
        cut, whole = ended(0, [0.0, 1.0], [(1, 1)] * 2), ended(1, [1.0, 1.0], [(1, 1)] * 2)
        spec = cut.spec.model_copy(update={"reward_rules": RewardRules(nonterminal=extra)})
        outcome = Completed(reward=1.0, stop=StopReason.MAX_TURNS)
        cut = cut.model_copy(update={"spec": spec, "outcome": outcome})
        config = AlgorithmConfig.model_validate({"advantage": "group_std", **algorithm})
        return [datum.weights_T.tolist() for datum in credited([group_of(cut, whole)], config)]

    assert trained_on(-3.0) != trained_on(None) == trained_on(0.0)
    assert turn_rewards(ended(0, [0.0, 1.0], [(1, 1)] * 2)) == [0.0, 1.0]


def test_row_27_an_episode_s_reward_belongs_to_all_its_sampled_tokens_alone() -> None:
    group = group_of(ended(0, [1.0, 1.0], [(2, 2), (1, 3)]), ended(1, [0.0], [(2, 1)]))
    data = credited([group], AlgorithmConfig(advantage=AdvantageKind.GROUP_MEAN))
    assert [datum.weights_T.tolist() for datum in data] == [[0, 0, 1, 1, 0, 1, 1, 1], [0, 0, -1]]


def test_a_turn_is_compared_with_the_same_turn_of_others() -> None:
    algorithm = AlgorithmConfig.model_validate(
        {"advantage": "group_mean", "credit": {"kind": "turn", "discount": 0.5}}
    )
    group = group_of(
        ended(0, [0.0, 4.0], [(2, 2), (1, 3)]),
        ended(1, [0.0, 0.0], [(2, 1), (1, 1)]),
        ended(2, [4.0], [(2, 1)]),
    )
    data = credited([group], algorithm)
    # Returns of turn 1: 2, 0, 4; of turn 2: 4, 0.
    assert [datum.weights_T.tolist() for datum in data] == [
        [0, 0, 0, 0, 0, 2, 2, 2],
        [0, 0, -2, 0, -2],
        [0, 0, 2],
    ]


@pytest.mark.parametrize("credit", [{"kind": "episode"}, {"kind": "turn"}])
@pytest.mark.parametrize("penalty", [{"entropy_coefficient": 0.1}, {"kl": {"coefficient": 0.1}}])
def test_a_group_without_a_signal_has_its_part_in_the_penalties(
    credit: dict[str, object], penalty: dict[str, object]
) -> None:
    level = group_of(ended(0, [1.0], [(2, 2)]), ended(1, [1.0], [(1, 1)]))
    apart = group_of(ended(0, [1.0], [(1, 1)]), ended(1, [0.0], [(1, 1)]))
    rewards_alone = AlgorithmConfig.model_validate({"advantage": "group_mean", "credit": credit})
    algorithm = AlgorithmConfig.model_validate(
        {"advantage": "group_mean", "credit": credit, **penalty}
    )
    assert credited([level], rewards_alone) == []
    data = credited([level, apart], algorithm)
    assert [datum.weights_T.tolist() for datum in data] == [
        [0, 0, 0, 0], [0, 0], [0, 0.5], [0, -0.5],
    ]  # fmt: skip
    assert has_signal(data, algorithm)
    assert not has_signal(credited([level], algorithm), algorithm)
    assert n_without_signal([level, apart], algorithm) == 1
    _, divisor = step_data([level, apart], algorithm)
    assert divisor == 2 + 1 + 1 + 1  # tokens that the penalties are a mean over


def test_a_critic_gets_each_turn_s_reward_at_its_last_token() -> None:
    """As it is: the op says what to divide by. Episodes that did the same count too."""
    algorithm = AlgorithmConfig.model_validate(
        {"critic": {"gamma": 0.9, "gae_lambda": 0.8, "value_coefficient": 0.6, "value_clip": 2.0}}
    )
    merged = ended(2, [9.0, 9.0], [(2, 4)])
    group = group_of(
        ended(0, [1.0, 2.0], [(2, 2), (1, 3)]), ended(1, [None, 3.0], [(1, 1), (1, 1)]), merged
    )
    data, divisor = step_data([group], algorithm)
    assert [datum.weights_T.tolist() for datum in data] == [
        [0, 0, 0, 1, 0, 0, 0, 2],
        [0, 0, 0, 3],
    ]
    assert divisor == 7
    assert objective(algorithm, divisor).critic == CriticTerm(
        gamma=0.9,
        gae_lambda=0.8,
        value_coefficient=0.6 / 7,
        value_clip=2.0,
        advantage_scale=1 / 7,
    )


@pytest.mark.parametrize("other", [{"advantage": "direct"}, {"credit": {"kind": "turn"}}])
def test_a_critic_and_another_judge_are_refused(other: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="with a critic, advantage and credit have no effect"):
        AlgorithmConfig.model_validate({"critic": {}, **other})


def test_turns_that_cannot_be_told_apart_are_left_out_and_counted() -> None:
    algorithm = AlgorithmConfig.model_validate({"credit": {"kind": "turn"}})
    merged = ended(2, [9.0, 9.0], [(2, 4)])
    group = group_of(ended(0, [1.0], [(1, 1)]), ended(1, [0.0], [(1, 1)]), merged)
    assert n_inseparable([group]) == 1
    assert len(credited([group], algorithm)) == 2


def test_penalties_are_divided_like_the_weights() -> None:
    algorithm = AlgorithmConfig.model_validate(
        {
            "loss": {"kind": "dro", "beta": 0.6},
            "kl": {"coefficient": 0.3},
            "entropy_coefficient": 0.12,
            "tis_cap": 2.0,
            "advantage": "direct",
        }
    )
    group = group_of(ended(0, [6.0], [(1, 1)]), ended(1, [12.0], [(1, 2)]))
    data, divisor = step_data([group], algorithm)
    assert divisor == 3
    assert [datum.weights_T.tolist() for datum in data] == [[0, 2], [0, 4, 4]]
    found = objective(algorithm, divisor)
    assert isinstance(found.loss, DroLoss)
    assert found.kl is not None
    assert (found.loss.beta, found.kl.coefficient) == pytest.approx((0.2, 0.1))
    assert (found.entropy_coefficient, found.tis_cap) == pytest.approx((0.04, 2.0))
