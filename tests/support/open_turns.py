"""Turns in a sampler's ledger, claimed from nobody."""

from dataclasses import dataclass

import numpy as np
from tests.support.items import generate

from warren_gpu_worker.sampler.engines.port import PolicyKey
from warren_gpu_worker.sampler.messages import PolicySource, TurnRequest
from warren_gpu_worker.sampler.supervisor.child_process import SamplerProcess
from warren_gpu_worker.sampler.supervisor.open_turns import OpenTurn, OpenTurns, TurnSource
from warren_schemas.config import Sampling
from warren_schemas.episode import Generate


@dataclass
class Claimed:
    """A claim that notes how it was settled."""

    item: Generate
    ending: str | None = None
    n_deliveries: int = 1
    offset: int | None = None

    def done(self) -> None:
        self._settle("done")

    def hand_back(self, *, delay_s: float = 0.0) -> None:
        self._settle("handed back")

    def dead_letter(self, reason: str) -> None:
        self._settle(reason)

    def _settle(self, ending: str) -> None:
        assert self.ending is None, "a claim is settled once"
        self.ending = ending


def request(number: int, forced_action: str | None = None) -> TurnRequest:
    source = PolicySource(PolicyKey("model_a"), 0, None)
    none = np.zeros(0, np.int32)
    return TurnRequest(number, source, none, (("user", "?"),), Sampling(), forced_action)


def submit_all(
    process: SamplerProcess, turns: OpenTurns, *forced_actions: str | None
) -> list[OpenTurn]:
    """A turn for each of these; the child owes them from now on."""
    opened = turns.open([Claimed(generate()) for _ in forced_actions], TurnSource.SHARED)
    for turn, forced_action in zip(opened, forced_actions, strict=True):
        turns.owe(turn, request(turn.id, forced_action))
    process.submit_turns([turn.request for turn in opened if turn.request])
    return opened
