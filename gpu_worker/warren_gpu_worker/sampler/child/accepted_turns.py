"""The turns that the sampler's child has accepted: its one ledger of them.

A turn is in it from its request until it is answered or cancelled. In between its images are looked
at, it waits for its policy, or the engine has its request.

Invariants:
- An accepted turn is answered once, unless it is cancelled: `answer` closes it, and an answer to a
  turn that is not open is dropped.
- Whoever else works on a turn (a thread that looks at images, the policy loader, the engine) names it
  by its id, or finds it here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from warren_gpu_worker.sampler.child.engine_time import EngineTime
from warren_gpu_worker.sampler.engines.port import PolicyKey, Refusal, Request
from warren_gpu_worker.sampler.messages import FinishedTurn, PolicySource, Rendered, TurnRequest

Answer = FinishedTurn | Rendered | Refusal


@dataclass(slots=True, eq=False)
class AcceptedTurn:
    id: int
    policy: PolicySource
    n_tokens_before: int
    """Those of the transcript; the request's prompt continues them."""
    request: Request | None = None
    """None until its prompt is made."""
    is_waiting: bool = False
    """Whether it waits for its policy."""
    submitted_s: float = 0.0
    """When the engine got the request; monotonic."""
    engine_s_before: float = 0.0
    """What `engine_time` said then."""


class AcceptedTurns:
    def __init__(self) -> None:
        self._open: dict[int, AcceptedTurn] = {}
        self._answers: list[Answer] = []
        self.engine_time = EngineTime()

    def __len__(self) -> int:
        """Those that are neither answered nor cancelled."""
        return len(self._open)

    @property
    def has_answers(self) -> bool:
        return bool(self._answers)

    def accept(self, turn: TurnRequest) -> AcceptedTurn:
        accepted = AcceptedTurn(turn.id, turn.policy, turn.ids_T.size)
        self._open[turn.id] = accepted
        return accepted

    def get(self, turn_id: int) -> AcceptedTurn | None:
        return self._open.get(turn_id)

    def waiting(self, policy: PolicyKey) -> list[AcceptedTurn]:
        """Those that wait for this policy, in order of arrival."""
        return [t for t in self._open.values() if t.is_waiting and t.policy.key == policy]

    def first(self) -> int | None:
        """The turn that an engine with room for one computes: one that it has begun, or else what is next."""
        given = [t for t in self._open.values() if t.request and not t.is_waiting]
        requests = [t.request for t in given if t.request]
        begun = [one for one in requests if one.ids] or requests
        return min(begun, key=lambda one: one.priority).id if begun else None

    def answer(self, answer: Answer) -> None:
        if self._open.pop(answer.id, None):
            self._answers.append(answer)

    def cancel(self, ids: Iterable[int]) -> None:
        for turn_id in ids:
            self._open.pop(turn_id, None)

    def take_answers(self) -> list[Answer]:
        """Those that nobody was told yet."""
        answers, self._answers = self._answers, []
        return answers
