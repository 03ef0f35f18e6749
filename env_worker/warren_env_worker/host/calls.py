"""The requests of slots as calls, and which episodes are live where those go: of one child, or of this process.

Invariant: every request is answered once, or is still under way. It becomes a call of a live episode where its slot has
one, and else a call that begins the episode, by replay where that has had turns. One whose episode alone has lost its
process is asked again so, `MAX_LOSSES` times at most: an environment may kill its own process each time.
"""

from warren_env_worker.host.backlog import Entry
from warren_env_worker.host.protocol import Answer, Call, Description, Refused
from warren_env_worker.host.refusal import Refusal, config_refusal
from warren_env_worker.host.request import Request
from warren_schemas.episode import FailureKind
from warren_schemas.operator_policy import OperatorPolicy

MAX_LOSSES = 3
"""At one request."""


class Calls:
    def __init__(self, description: Description, policy: OperatorPolicy) -> None:
        self._description = description
        self._policy = policy
        self.n_made = 0
        self.under_way: dict[int, Request] = {}
        """By the number of the call."""
        self.held: set[int] = set()
        """Slots with an episode."""

    def made_of(self, entry: Entry) -> Call | None:
        """None where nothing is to be done: the slot to close has no episode, or the request was refused."""
        self.n_made += 1
        number = self.n_made
        if isinstance(entry, int):
            is_held = entry in self.held
            self.held.discard(entry)
            return Call(number, entry, closes=True) if is_held else None
        try:
            call = self._asked(entry, number)
        except Refusal as refusal:
            entry.answer(Refused(number, refusal.kind, refusal.reason, refusal.is_retryable))
            return None
        self.held.add(entry.slot)
        self.under_way[number] = entry
        return call

    def _asked(self, request: Request, number: int) -> Call:
        """Raises `Refusal`."""
        sees_tokens = self._description.sees_tokens
        if request.slot in self.held:
            return request.live_call(number, sees_tokens=sees_tokens)
        if (
            request.begins
            and request.spec.task.level is not None
            and not self._description.has_levels
        ):
            raise _no_levels(request.spec.environment)
        if request.transcript is not None and not self._description.is_replayable:
            raise _not_replayable()
        return request.whole_call(number, self._policy, sees_tokens=sees_tokens)

    def settle(self, answer: Answer) -> Request | None:
        """Tell who asked, unless the slot was closed meanwhile. The request, if it is to be asked again: the process of its
        episode alone was lost."""
        request = self.under_way.pop(answer.id, None)
        if request is None:
            return None
        is_wanted = request.slot in self.held
        if isinstance(answer, Refused) or answer.is_over:
            self.held.discard(request.slot)
        if is_wanted and isinstance(answer, Refused) and answer.kind is FailureKind.LOST:
            request.n_losses += 1
            if request.n_losses < MAX_LOSSES:
                return request
            answer = _lost_each_time(answer)
        request.answer(answer)
        return None

    @property
    def wanted(self) -> list[Request]:
        """Those under way whose slots are still open, in the order in which they were made calls."""
        return [request for request in self.under_way.values() if request.slot in self.held]


def _no_levels(name: str) -> Refusal:
    return config_refusal(
        f"curriculum: {name} has no levels, so one of levels would change nothing; leave it out, or take over: tasks"
        " (a class whose reset() reads ctx.level says has_levels = True)"
    )


def _lost_each_time(answer: Refused) -> Refused:
    reason = f"{answer.reason}, {MAX_LOSSES} times at one action"
    return Refused(answer.id, FailureKind.ENVIRONMENT_CRASHED, reason)


def _not_replayable() -> Refusal:
    reason = "its process is gone and the environment says that it is not replayable"
    return Refusal(FailureKind.NOT_REPLAYABLE, reason)
