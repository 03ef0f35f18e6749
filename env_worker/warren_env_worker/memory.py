"""What is remembered of episodes that are over: the newest, within bounds.

Forgetting is harmless: an episode that comes again is rebuilt and ends as it did.
"""

from collections import OrderedDict

from warren_env_worker.interaction import Interaction, episode_of, run_of
from warren_schemas.episode import EpisodeEnded
from warren_schemas.ids import EpisodeId, RunId

MAX_EPISODES = 4096
MAX_TOKENS = 4_000_000
"""Of all remembered transcripts together, about 13 bytes each."""


class FinishedEpisodes:
    def __init__(self) -> None:
        self._finished: OrderedDict[EpisodeId, Interaction] = OrderedDict()
        self._n_tokens = 0

    def add(self, interaction: Interaction) -> None:
        self.forget(episode_of(interaction.taken))
        self._finished[episode_of(interaction.taken)] = interaction
        self._n_tokens += _n_tokens(interaction)
        while len(self._finished) > MAX_EPISODES or self._n_tokens > MAX_TOKENS:
            self.forget(next(iter(self._finished)))

    def get(self, episode: EpisodeId) -> Interaction | None:
        return self._finished.get(episode)

    def forget(self, episode: EpisodeId) -> None:
        interaction = self._finished.pop(episode, None)
        if interaction is not None:
            self._n_tokens -= _n_tokens(interaction)

    def forget_run(self, run: RunId) -> None:
        for episode in [e for e, i in self._finished.items() if run_of(i.taken) == run]:
            self.forget(episode)


def _n_tokens(interaction: Interaction) -> int:
    successor = interaction.successor
    if successor is None or not isinstance(successor.item, EpisodeEnded):
        return 0
    return len(successor.item.transcript.tokens)
