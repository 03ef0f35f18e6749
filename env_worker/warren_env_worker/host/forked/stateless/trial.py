"""Whether a class's episodes may wait for the policy's words without a process.

They may where nobody can tell the difference: an episode ends with its first action, `reset` shows the
same when it is called again, nothing is printed, and all of it is quick. Then nothing is kept between
two calls, and the second one begins its episode again: a few processes play all episodes in turn, each
alone there while it is played, instead of one process for each episode that waits.

That is found out from episodes played in the usual way. `reset` is tried again after their end, so that
no episode fails for it. Whatever speaks against it begins the trial anew, twice as long if it had passed.
"""

from typing import Any

from warren.environment import Env
from warren_env_worker.host.protocol import Answer, Call, Observed, Start

N_EPISODES = 64
"""In a row, in the usual way, before `reset` is tried again."""
N_REPEATS = 16
"""So often."""
QUICK_S = 0.002
"""Most time of an episode in user code; one in four of a trial may take longer on a busy machine."""
MAX_SLOW = 8
"""So many turns of a process in a row may take longer, once the trial has passed."""
REPEAT = 1 << 63
"""Number of a call that is no one's but ours."""


class Trial:
    def __init__(self, environment: type[Env[Any]], *, reuses: bool) -> None:
        self._may_pass = reuses and environment.replayable and environment.close is Env.close
        self._n_wanted = N_EPISODES
        self._start()

    def _start(self) -> None:
        self._n_episodes = self._n_slow = self._n_repeats = self._n_slow_turns = 0

    @property
    def is_passed(self) -> bool:
        return self._n_repeats >= N_REPEATS

    def suits(self, start: Start) -> bool:
        """Whether this episode may be one of them: secrets stay with one process."""
        return not (start.demonstrates or start.sealed.values)

    def ended(self, *, n_calls: int, busy_s: float, is_silent: bool) -> None:
        """An episode ended well in the usual way."""
        self._n_episodes += 1
        self._n_slow += busy_s > QUICK_S and not self.is_passed
        if not is_silent or n_calls != 2 or self._n_slow > self._n_wanted // 4:
            self._start()

    def repeat(self, call: Call, digest: str) -> Call | None:
        """A call that tries the `reset` of this episode again, if it is time for that."""
        if not self._may_pass or self.is_passed or self._n_episodes < self._n_wanted:
            return None
        return Call(REPEAT, call.slot, call.start, digests=(digest,), is_stateless=True)

    def repeated(self, answer: Answer) -> None:
        if isinstance(answer, Observed):
            self._n_repeats += 1
        else:
            self.failed()

    def worked(self, *, n_calls: int, busy_s: float, is_silent: bool) -> None:
        """A process has had a turn at stateless calls, and all went well."""
        is_slow = n_calls > 1 and busy_s > QUICK_S * n_calls
        self._n_slow_turns = self._n_slow_turns + 1 if is_slow else 0
        if not is_silent or self._n_slow_turns > MAX_SLOW:
            self.failed()

    def failed(self) -> None:
        """An episode that was played so tells that it is not to be done."""
        if self._n_episodes >= self._n_wanted:
            self._n_wanted *= 2
        self._start()
