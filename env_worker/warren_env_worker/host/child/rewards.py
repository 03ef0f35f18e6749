"""The rewards of all actions of an episode that is scored anew."""

from dataclasses import replace

from warren_env_worker.host.protocol import Observed


class Rewards:
    def __init__(self) -> None:
        self._n_actions = 0
        self._rewards: dict[int, float] = {}
        self._metrics: dict[str, float] = {}

    def note(self, observed: Observed) -> None:
        """What follows from the next action. Rewards that come late take the place of those before."""
        self._n_actions += 1
        if observed.reward is not None:
            self._rewards[self._n_actions] = observed.reward
        self._rewards |= dict(observed.earlier)
        self._metrics |= observed.metrics

    def told_with(self, last: Observed) -> Observed:
        """The last answer, with what those before it gave."""
        earlier = tuple((n, value) for n, value in self._rewards.items() if n < self._n_actions)
        return replace(last, earlier=earlier, metrics=self._metrics)
