"""Episodes of which no process holds anything between two calls; `trial` says when that may be.

Invariant: what is kept here of an episode is all that it takes to play it again up to where it is: how
it began, what the policy said, and the digests of what was shown.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from warren.environment import Env
from warren_env_worker.host.forked.episode_process import EpisodeProcess
from warren_env_worker.host.forked.stateless.trial import REPEAT, Trial
from warren_env_worker.host.forked.waiting import Waiting
from warren_env_worker.host.protocol import Answer, Call, Observed, Refused
from warren_schemas.episode import FailureKind

MIN_CALLS, MAX_CALLS = 8, 32
"""That a process gets at once, if there are so many."""


class StatelessEpisodes:
    def __init__(self, environment: type[Env[Any]], *, reuses: bool) -> None:
        self._trial = Trial(environment, reuses=reuses)
        self._so_far: dict[int, Call] = {}
        """By slot: a call that would bring the episode to where it is."""

    def take_in(self, call: Call) -> bool:
        """Whether this call needs a process only while it is under way."""
        assert call.start is not None
        if call.group is not None:
            return False
        return self._trial.is_passed and self._trial.suits(call.start) and len(call.actions) <= 1

    def batch(self, waiting: Waiting, process: EpisodeProcess, n_more: int) -> list[Call]:
        """What this process gets, and so many minus one others might share."""
        most = min(max(len(waiting) // n_more, MIN_CALLS), MAX_CALLS)
        calls: list[Call] = []
        while len(calls) < most and waiting:
            call, n_loads = waiting.first
            if not (self.take_in(call) and process.suits(call, n_loads)):
                break
            calls.append(replace(waiting.take(), is_stateless=True))
        return calls

    def whole(self, call: Call) -> Call | None:
        """The same call of an episode that is here, from the start."""
        so_far = self._so_far.get(call.slot)
        if so_far is None:
            return None
        return replace(so_far, id=call.id, actions=(*so_far.actions, *call.actions))

    def forget_episode(self, slot: int) -> None:
        """It is over, or a process holds it."""
        self._so_far.pop(slot, None)

    def hear(self, call: Call, answer: Answer) -> bool:
        """The answer to a stateless call; whether the supervisor waits for it."""
        if call.id == REPEAT:
            self._trial.repeated(answer)
            return False
        if isinstance(answer, Refused) or answer.is_over:
            self.forget_episode(call.slot)
        else:
            digests = (*call.digests, answer.digest)
            self._so_far[call.slot] = replace(call, digests=digests, is_stateless=False)
        goes_on = isinstance(answer, Observed) and bool(call.actions) and not answer.is_over
        differs = isinstance(answer, Refused) and answer.kind is FailureKind.NOT_REPLAYABLE
        if goes_on or differs:
            self.stop()
        return True

    def ready(self, process: EpisodeProcess) -> Call | None:
        """A call to try in a process that left nothing behind."""
        n_calls, busy_s, is_silent = process.n_asked, process.busy_s, process.is_silent
        if process.is_stateless:
            self._trial.worked(n_calls=n_calls, busy_s=busy_s, is_silent=is_silent)
            return None
        first = process.first
        if first is None or first.start is None or first.group is not None:
            return None
        if not self._trial.suits(first.start):
            return None
        self._trial.ended(n_calls=n_calls, busy_s=busy_s, is_silent=is_silent)
        return self._trial.repeat(first, process.shown)

    def end(
        self, guilty: Call | None, others: Sequence[Call]
    ) -> tuple[Call | None, Sequence[Call]]:
        """A process has ended while it had these calls; those of them that the supervisor waits for."""
        if guilty is not None:
            self.forget_episode(guilty.slot)
            self.stop()
        is_wanted = guilty is not None and guilty.id != REPEAT
        return guilty if is_wanted else None, [call for call in others if call.id != REPEAT]

    def stop(self) -> None:
        """An episode that was played so tells that its class is not to be."""
        self._trial.failed()
