"""Full weights, of which vLLM holds one set at a time: whose turn is it?

The base model's weights, with any adapters on them, are one set; every full-parameter policy is one.
Requests of the set that is in place run together; those of others wait for their turn, in order of
arrival. Sets that are not in place wait in the host's memory.

Invariant: once a request of another set waits, no later one joins the set in place; so every set's
turn comes.
"""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from torch import Tensor

from warren_gpu_worker.sampler.engines.port import PolicyKey, Request


@dataclass(frozen=True, slots=True)
class WeightSet:
    version: int
    tensors: dict[str, Tensor]

    @property
    def size_bytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.tensors.values())


class WeightSets:
    """`None` stands for the base model's own set."""

    def __init__(self, memory_bytes: int) -> None:
        self.in_place: PolicyKey | None = None
        self._memory_bytes = memory_bytes
        self._sets: dict[PolicyKey, WeightSet] = {}  # the least recently used comes first
        self._waiting: deque[Request] = deque()

    def __len__(self) -> int:
        return len(self._sets)

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    @property
    def size_bytes(self) -> int:
        return sum(weights.size_bytes for weights in self._sets.values())

    @property
    def waiting_policies(self) -> set[PolicyKey]:
        return {request.policy for request in self._waiting}

    def get(self, key: PolicyKey) -> WeightSet | None:
        return self._sets.get(key)

    def put(self, key: PolicyKey, weights: WeightSet) -> None:
        self._sets.pop(key, None)
        self._sets[key] = weights

    def drop_set(self, key: PolicyKey) -> None:
        self._sets.pop(key, None)

    def wait(self, request: Request) -> None:
        self._waiting.append(request)

    def remove(self, ids: Collection[int]) -> None:
        self._waiting = deque(r for r in self._waiting if r.id not in ids)

    def due(self) -> Iterator[Request]:
        """Those at the head of the line that the set in place serves."""
        while self._waiting and self.next_turn() == self.in_place:
            yield self._waiting.popleft()

    def next_turn(self) -> PolicyKey | None:
        """Whose turn it is when nothing runs; there must be somebody waiting."""
        policy = self._waiting[0].policy
        return policy if policy in self._sets else None

    def evict_unused(self, busy: Collection[PolicyKey]) -> None:
        """Forget what was not used for longest until the rest fits."""
        for key in [k for k in self._sets if k not in busy and k != self.in_place]:
            if self.size_bytes <= self._memory_bytes:
                return
            del self._sets[key]
