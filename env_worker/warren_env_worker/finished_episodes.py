"""What is remembered of episodes that are over: the newest, within bounds.

Forgetting is harmless: an episode that comes again is rebuilt and ends as it did.
"""

from collections import OrderedDict
from dataclasses import replace

from warren_env_worker.interaction import Interaction, episode_of, run_of
from warren_schemas.episode import EpisodeEnded, Step
from warren_schemas.ids import EpisodeId, RunId
from warren_schemas.transcript import Tokens, Transcript

MAX_EPISODES = 4096
MAX_BYTES = 64 * 1024**2
"""Of all remembered transcripts together."""
_TOKEN_BYTES = 13


class FinishedEpisodes:
    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._finished: OrderedDict[EpisodeId, Interaction] = OrderedDict()
        self.size_bytes = 0

    def add(self, interaction: Interaction) -> None:
        """Remember what a repetition needs, and nothing of the messages that it came in."""
        self.forget_episode(episode_of(interaction.taken))
        interaction = _alone(interaction)
        self._finished[episode_of(interaction.taken)] = interaction
        self.size_bytes += _size_bytes(interaction)
        while len(self._finished) > MAX_EPISODES or self.size_bytes > self._max_bytes:
            self.forget_episode(next(iter(self._finished)))

    def get(self, episode: EpisodeId) -> Interaction | None:
        return self._finished.get(episode)

    def forget_episode(self, episode: EpisodeId) -> None:
        interaction = self._finished.pop(episode, None)
        if interaction is not None:
            self.size_bytes -= _size_bytes(interaction)

    def forget_run(self, run: RunId) -> None:
        for episode in [e for e, i in self._finished.items() if run_of(i.taken) == run]:
            self.forget_episode(episode)


def _alone(interaction: Interaction) -> Interaction:
    """The same without the arrays of its messages, which many episodes share: one of them would keep
    the bytes of all alive."""
    taken, successor = interaction.taken, interaction.successor
    if isinstance(taken, Step):
        taken = taken.model_copy(update={"transcript": Transcript()})
    if successor is not None and isinstance(successor.item, EpisodeEnded):
        item = successor.item
        tokens = item.transcript.tokens
        arrays = {name: getattr(tokens, name).copy() for name in Tokens.model_fields}
        transcript = item.transcript.model_copy(update={"tokens": Tokens.model_construct(**arrays)})
        successor = replace(successor, item=item.model_copy(update={"transcript": transcript}))
    return replace(interaction, taken=taken, successor=successor, claims=[])


def _size_bytes(interaction: Interaction) -> int:
    successor = interaction.successor
    if successor is None or not isinstance(successor.item, EpisodeEnded):
        return 0
    transcript = successor.item.transcript
    n_chars = sum(message.n_chars for message in transcript.messages)
    return _TOKEN_BYTES * len(transcript.tokens) + n_chars
