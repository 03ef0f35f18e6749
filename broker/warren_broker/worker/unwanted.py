"""Ended runs and cancelled episodes, whose work is dropped.

News of them comes before, while and after their turns do, so they are remembered for a while: as
many of each as `_N_REMEMBERED`. What is forgotten costs work that nobody reads, and nothing else.
"""

from collections import OrderedDict

from warren_schemas.envelope import Envelope
from warren_schemas.ids import EpisodeId, RunId

_N_REMEMBERED = 4096


class Unwanted:
    def __init__(self) -> None:
        self._runs: OrderedDict[RunId, None] = OrderedDict()
        self._attempts: OrderedDict[EpisodeId, int] = OrderedDict()

    def __contains__(self, envelope: Envelope) -> bool:
        if envelope.run in self._runs:
            return True
        cancelled = self._attempts.get(envelope.episode, 0) if envelope.episode else 0
        return envelope.attempt <= cancelled

    def end_run(self, run: RunId) -> None:
        self._runs[run] = None
        if len(self._runs) > _N_REMEMBERED:
            self._runs.popitem(last=False)

    def cancel(self, envelope: Envelope) -> None:
        """Nobody needs this attempt at its episode, or an older one."""
        if (episode := envelope.episode) is None:
            return
        self._attempts[episode] = max(envelope.attempt, self._attempts.get(episode, 0))
        if len(self._attempts) > _N_REMEMBERED:
            self._attempts.popitem(last=False)
