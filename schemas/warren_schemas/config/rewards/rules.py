"""From the rewards of an episode's turns to the reward of the episode."""

from collections.abc import Sequence
from enum import StrEnum

from warren_schemas.base import Frozen


class RewardReduction(StrEnum):
    SUM = "sum"
    MEAN = "mean"
    MAX = "max"
    MIN = "min"


class RewardRules(Frozen):
    """How the rewards of an episode's turns become one."""

    reduction: RewardReduction = RewardReduction.SUM
    nonterminal: float | None = None
    """One more reward where the environment did not end the episode itself."""
    minimum: float | None = None
    maximum: float | None = None

    def reduce(self, rewards: Sequence[float | None], *, is_terminal: bool) -> float | None:
        """The reward of the episode; None where no turn gave one, which is not a reward of 0."""
        given = [reward for reward in rewards if reward is not None]
        if not is_terminal and self.nonterminal is not None:
            given.append(self.nonterminal)
        return self._clamped(_REDUCTIONS[self.reduction](given)) if given else None

    def _clamped(self, reward: float) -> float:
        if self.minimum is not None:
            reward = max(reward, self.minimum)
        return reward if self.maximum is None else min(reward, self.maximum)


def _mean(rewards: Sequence[float]) -> float:
    return sum(rewards) / len(rewards)


_REDUCTIONS = {
    RewardReduction.SUM: sum,
    RewardReduction.MEAN: _mean,
    RewardReduction.MAX: max,
    RewardReduction.MIN: min,
}
