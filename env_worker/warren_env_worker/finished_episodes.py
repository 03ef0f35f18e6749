"""What is remembered of episodes that are over: the newest, within bounds.

Forgetting is harmless: an episode that comes again is rebuilt and ends as it did.
"""

from collections import OrderedDict
from dataclasses import replace

from warren_env_worker.interaction import Interaction, episode_of, run_of
from warren_schemas.episode import EpisodeEnded, Step
from warren_schemas.ids import EpisodeId, RunId
from warren_schemas.sampling_mask import SamplingMask
from warren_schemas.transcript import Tokens, Transcript

MAX_EPISODES = 4096
MAX_BYTES = 64 * 1024**2
"""Of all remembered transcripts together."""


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
        aside = (
            b.model_copy(update={"tokens": _copied(b.tokens)}) for b in item.transcript.set_aside
        )
        copies = {"tokens": _copied(item.transcript.tokens), "set_aside": tuple(aside)}
        transcript = item.transcript.model_copy(update=copies)
        successor = replace(successor, item=item.model_copy(update={"transcript": transcript}))
    return replace(interaction, taken=taken, successor=successor, claims=[])


def _copied(tokens: Tokens) -> Tokens:
    mask = tokens.sampling_mask
    if mask is not None:
        mask = SamplingMask.model_construct(sizes_N=mask.sizes_N.copy(), ids_S=mask.ids_S.copy())
    return Tokens.model_construct(
        ids_T=tokens.ids_T.copy(),
        mask_T=tokens.mask_T.copy(),
        logprobs_T=tokens.logprobs_T.copy(),
        versions_T=tokens.versions_T.copy(),
        sampling_mask=mask,
    )


def _size_bytes(interaction: Interaction) -> int:
    successor = interaction.successor
    if successor is None or not isinstance(successor.item, EpisodeEnded):
        return 0
    transcript = successor.item.transcript
    return sum(tokens.size_bytes for tokens in transcript.sequences) + transcript.n_chars
